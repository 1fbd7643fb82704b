/** Which of the dashboard's replies have come: nothing is shown that later ones would move. */

import type { Resource } from "../../api/useResource";
import { useScoped } from "../../state/scope";
import { ADVICE_PARAMS } from "./advice";

/** Ops that could use Tensor Cores and do not; only their number is shown. */
export const MISSED_PARAMS = { tc_eligible: 1, using_tc: 0, page_size: 25 } as const;

type Arriving = Pick<Resource<unknown>, "data" | "error">;

/** Whether all have come, or will not. */
function areKnown(resources: readonly Arriving[]): boolean {
  return resources.every(({ data, error }) => data !== null || error !== null);
}

/** Whether it is known how many figures there are, and so how high the first row is. */
export function useAreFiguresKnown(): boolean {
  return areKnown([
    useScoped<unknown>("performance-summary/"),
    useScoped<unknown>("resource-usage/"),
    useScoped<unknown>("efficiency/"),
    useScoped<unknown>("ops/", MISSED_PARAMS),
  ]);
}

/** Whether the height of the second row is known, and so the places of those below. */
export function useIsAdviceKnown(): boolean {
  return areKnown([
    useScoped<unknown>("verdict/"),
    useScoped<unknown>("advice/", ADVICE_PARAMS),
    useScoped<unknown>("recommendations/"),
  ]);
}
