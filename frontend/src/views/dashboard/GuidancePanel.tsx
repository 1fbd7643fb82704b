/** Fixed text: where to read on about Tensor Cores and mixed precision. */

import { t } from "../../i18n";
import { Icon } from "../../ui/icons";
import { Panel } from "../../ui/Panel";

export function GuidancePanel() {
  return (
    <Panel title={t("Guidance")} span={12}>
      <ul class="guidance">
        {GUIDANCE.map((item) => (
          <li key={item.text}>
            {item.text}{" "}
            {item.link !== undefined && (
              <a href={item.link.href} target="_blank" rel="noreferrer">
                {item.link.text} <Icon name="external" size={12} />
              </a>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

export interface GuidanceItem {
  readonly text: string;
  readonly link?: { readonly text: string; readonly href: string };
}

export const GUIDANCE: readonly GuidanceItem[] = [
  {
    text: t(
      "Start with the time of an iteration and its breakdown; then look at the ops that take the most time.",
    ),
  },
  {
    text: t(
      "Tensor Cores multiply matrices in FP16, BF16, TF32 or FP8 several times faster than other cores.",
    ),
    link: {
      text: t("Tensor Cores"),
      href: "https://www.nvidia.com/en-us/data-center/tensor-cores/",
    },
  },
  {
    text: t(
      "Mixed precision lets a network use them with few changes: autocast and, for FP16, loss scaling.",
    ),
    link: {
      text: t("Training with mixed precision"),
      href: "https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html",
    },
  },
  {
    text: t(
      "Dimensions that are multiples of 8 (FP16, BF16) or 16 (FP8) let more of the work use Tensor Cores.",
    ),
    link: {
      text: t("Deep learning performance"),
      href: "https://docs.nvidia.com/deeplearning/performance/index.html",
    },
  },
  {
    text: t(
      "An op that uses Tensor Cores may also launch kernels that prepare its data, such as transposes; those do not use them.",
    ),
  },
];
