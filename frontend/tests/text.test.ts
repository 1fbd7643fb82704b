import { describe, expect, it } from "vitest";
import { splitLinks, splitMiddle, stackFrames, tsvLine } from "../src/lib/text";

describe("names that are cut in the middle", () => {
  it("keep the last path segments that are short", () => {
    expect(splitMiddle("/resnet50/layer1.1.conv3/conv2d")).toEqual([
      "/resnet50",
      "/layer1.1.conv3/conv2d",
    ]);
  });

  it("keep their last characters when they are no path", () => {
    const name = "sm90_xmma_fprop_implicit_gemm_f16f16_execute__5x_cudnn";
    const [head, tail] = splitMiddle(name);
    expect(head + tail).toBe(name);
    expect(tail).toBe("te__5x_cudnn");
  });

  it("stay whole when they are short", () => {
    expect(splitMiddle("conv2d")).toEqual(["conv2d", ""]);
    expect(splitMiddle("/conv2d")).toEqual(["/conv2d", ""]);
  });
});

describe("long texts", () => {
  it("of a stack have one frame per line", () => {
    expect(stackFrames("train.py(1): <module>\n  model.py(2): forward\n")).toEqual([
      "train.py(1): <module>",
      "model.py(2): forward",
    ]);
  });
});

describe("links in a recommendation", () => {
  it("are http addresses without the punctuation behind them", () => {
    expect(splitLinks("See https://a.example/x. Then go on")).toEqual([
      { text: "See ", href: null },
      { text: "https://a.example/x", href: "https://a.example/x" },
      { text: ". Then go on", href: null },
    ]);
  });

  it("are never made of anything else", () => {
    expect(splitLinks("javascript:alert(1)")).toEqual([
      { text: "javascript:alert(1)", href: null },
    ]);
  });
});

describe("tab-separated lines", () => {
  it("hold one line per row whatever the cells hold", () => {
    expect(tsvLine(["a\tb", "c\nd", null, 3, false])).toBe("a b\tc d\t\t3\tfalse");
  });
});
