/* dlprof's own collector, with what it asks of CUPTI in single steps, for benchmarks.call_prices. */

#include "cupti.c"

#include "collector.h"

static void prepare(int own_clock)
{
    library_failed("thread ids", cupti.SetThreadIdType(THREAD_IDS_OF_SYSTEM));
    if (own_clock)
        library_failed("time stamps", cupti.ActivityRegisterTimestampCallback(output_now));
    library_failed("callbacks", cupti.ActivityRegisterCallbacks(activity_request, activity_complete));
    library_failed("flush period", cupti.ActivityFlushPeriod(FLUSH_MS));
}

static void enable_kinds(int first, int last)
{
    int at;
    for (at = first; at < last; at++)
        library_failed("kind", cupti.ActivityEnable(KINDS[at]));
}

/* Let the file of records begin, and CUPTI be loaded; nothing is asked of it. */
EXPORTED void call_prices_begin(void)
{
    dlprof_collector_begin();
    state = ATTACHED; /* or CUDA's initialization would ask for everything */
    library_load();
}

EXPORTED void call_prices_stage(const char *name)
{
    const int kinds = sizeof KINDS / sizeof *KINDS;
    if (!strcmp(name, "subscribed"))
        subscribe();
    else if (!strcmp(name, "graph nodes watched"))
        watch_graphs(1);
    else if (!strcmp(name, "prepared"))
        prepare(1);
    else if (!strcmp(name, "prepared, CUPTI's clock"))
        prepare(0);
    else if (!strcmp(name, "kernels"))
        enable_kinds(0, 1);
    else if (!strcmp(name, "copies and sets"))
        enable_kinds(1, 4);
    else if (!strcmp(name, "synchronization, events, overhead"))
        enable_kinds(4, kinds);
    else if (!strcmp(name, "calls"))
        enable_all_calls();
    else if (!strcmp(name, "driver calls"))
        enable_driver_calls();
    else if (!strcmp(name, "written"))
        cupti.ActivityFlushAll(FLUSH_FORCED);
    else if (!strcmp(name, "nothing again"))
        disable();
    else if (!strcmp(name, "detached"))
        cupti_stop(CUPTI_DETACH), cupti_release();
}
