/** Fixed text: where to read on about Tensor Cores and mixed precision. */

import { GUIDANCE } from "../../content/guidance";
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
