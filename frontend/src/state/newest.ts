/** Of several questions that overlap, the one asked last counts: answers may come out of order. */

/** Passes an answer on unless one to a later question has been passed on already. */
export type TakeNewest = <T>(
  answer: Promise<T>,
  use: (answer: T) => void,
  fail: (reason: unknown) => void,
) => Promise<void>;

export function newestOnly(): TakeNewest {
  let asked = 0;
  let taken = 0;
  return (answer, use, fail) => {
    asked += 1;
    const number = asked;
    const unlessLate =
      <V>(take: (value: V) => void) =>
      (value: V): void => {
        if (number < taken) return;
        taken = number;
        take(value);
      };
    return answer.then(unlessLate(use), unlessLate(fail));
  };
}
