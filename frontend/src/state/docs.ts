/** The documentation of the view that is open: a page over it, named in the address. */

import { currentQuery, navigate } from "./location";

export function openDocs(): void {
  navigate({ docs: currentQuery().get("view") ?? "dashboard" });
}
