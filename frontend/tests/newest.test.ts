import { expect, test } from "vitest";
import { newestOnly } from "../src/state/newest";

function later(): { promise: Promise<string>; answer: (text: string) => void; fail: () => void } {
  let answer: (text: string) => void = () => undefined;
  let fail: () => void = () => undefined;
  const promise = new Promise<string>((resolve, reject) => {
    answer = resolve;
    fail = () => reject(new Error("away"));
  });
  return { promise, answer, fail };
}

test("an answer that comes after that of a later question is dropped", async () => {
  const seen: string[] = [];
  const take = newestOnly();
  const [first, second, third] = [later(), later(), later()];
  const all = [first, second, third].map(({ promise }) =>
    take(
      promise,
      (text) => seen.push(text),
      () => seen.push("failed"),
    ),
  );
  second.answer("second");
  await all[1];
  first.answer("first");
  await all[0];
  third.answer("third");
  await all[2];
  expect(seen).toEqual(["second", "third"]);
});

test("a failure that comes too late is dropped too", async () => {
  const seen: string[] = [];
  const take = newestOnly();
  const [first, second] = [later(), later()];
  const all = [first, second].map(({ promise }) =>
    take(
      promise,
      (text) => seen.push(text),
      () => seen.push("failed"),
    ),
  );
  second.answer("second");
  await all[1];
  first.fail();
  await all[0];
  expect(seen).toEqual(["second"]);
});
