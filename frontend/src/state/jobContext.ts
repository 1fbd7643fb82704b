/** The job of the profile, for the view that starts it and the panel that reports on it. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { JobControl } from "./jobs";

export const JobContext = createContext<JobControl | null>(null);

export function useJobControl(): JobControl {
  const jobs = useContext(JobContext);
  if (jobs === null) throw new Error("useJobControl outside of JobContext");
  return jobs;
}
