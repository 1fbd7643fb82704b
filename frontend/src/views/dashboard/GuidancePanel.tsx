/** Fixed text: where to read on about Tensor Cores and mixed precision. */

import { t } from "../../i18n";
import { Icon } from "../../ui/icons";
import { Panel } from "../../ui/Panel";

const NVIDIA = "https://docs.nvidia.com/deeplearning/performance";

/** Sentences with a link to read on: its text and its address. */
const GUIDANCE: readonly (readonly [sentence: string, link?: string, href?: string])[] = [
  [
    t(
      "Start with the time of an iteration and its breakdown; then look at the ops that take the most time.",
    ),
  ],
  [
    t(
      "Tensor Cores multiply matrices in FP16, BF16, TF32 or FP8 several times faster than other cores.",
    ),
    t("Tensor Cores"),
    "https://www.nvidia.com/en-us/data-center/tensor-cores/",
  ],
  [
    t(
      "Mixed precision lets a network use them with few changes: autocast and, for FP16, loss scaling.",
    ),
    t("Training with mixed precision"),
    `${NVIDIA}/mixed-precision-training/index.html`,
  ],
  [
    t(
      "Dimensions that are multiples of 8 (FP16, BF16) or 16 (FP8) let more of the work use Tensor Cores.",
    ),
    t("Deep learning performance"),
    `${NVIDIA}/index.html`,
  ],
  [
    t(
      "An op that uses Tensor Cores may also launch kernels that prepare its data, such as transposes; those do not use them.",
    ),
  ],
];

export function GuidancePanel() {
  return (
    <Panel title={t("Guidance")} span={12}>
      <ul class="guidance">
        {GUIDANCE.map(([sentence, link, href]) => (
          <li key={sentence}>
            {sentence}{" "}
            {href !== undefined && (
              <a href={href} target="_blank" rel="noreferrer">
                {link} <Icon name="external" size={12} />
              </a>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
