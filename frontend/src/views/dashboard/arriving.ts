/** Which of the dashboard's replies have come: nothing is shown that later ones would move. */

import type { Resource } from "../../api/useResource";
import { useScoped } from "../../state/scope";
import { ADVICE_PARAMS } from "./advice";

/** Ops that could use Tensor Cores and do not; only their number is shown. */
export const MISSED_PARAMS = { tc_eligible: 1, using_tc: 0, page_size: 25 } as const;
export const PHASES_PARAMS = { page_size: 100 } as const;
export const GPUS_PARAMS = { page_size: 100 } as const;

type Arriving = Pick<Resource<unknown>, "data" | "error">;

/** Whether all that the first screen consists of has come, or will not. */
export function useIsAllKnown(): boolean {
  const resources: readonly Arriving[] = [
    useScoped<unknown>("verdict/"),
    useScoped<unknown>("performance-summary/"),
    useScoped<unknown>("resource-usage/"),
    useScoped<unknown>("efficiency/"),
    useScoped<unknown>("op-summary/"),
    useScoped<unknown>("ops/", MISSED_PARAMS),
    useScoped<unknown>("phases/", PHASES_PARAMS),
    useScoped<unknown>("gpus/", GPUS_PARAMS),
    useScoped<unknown>("advice/", ADVICE_PARAMS),
    useScoped<unknown>("recommendations/"),
  ];
  return resources.every(({ data, error }) => data !== null || error !== null);
}
