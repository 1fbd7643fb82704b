/* dlprof's own collector, with what it asks of CUPTI in single steps, for benchmarks.call_prices. */

#include "cupti.c"

static void prepare(int own_clock)
{
    failed("thread ids", cupti.SetThreadIdType(THREAD_IDS_OF_SYSTEM));
    if (own_clock)
        failed("time stamps", cupti.ActivityRegisterTimestampCallback(collector_now));
    failed("callbacks", cupti.ActivityRegisterCallbacks(activity_request, activity_complete));
    failed("flush period", cupti.ActivityFlushPeriod(FLUSH_MS));
}

static void enable_kinds(int first, int last)
{
    int at;
    for (at = first; at < last; at++)
        failed("kind", cupti.ActivityEnable(KINDS[at]));
}

static void watch_graphs(void)
{
    cupti.EnableCallback(1, subscriber, DOMAIN_RESOURCE, CALLBACK_GRAPH_NODE_CREATED);
    cupti.EnableCallback(1, subscriber, DOMAIN_RESOURCE, CALLBACK_GRAPH_NODE_CLONED);
}

static void detach(void)
{
    void *library = version ? dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*finalize)(void) = NULL;
    disable();
    cupti.ActivityFlushAll(FLUSH_FORCED);
    if (library)
        *(void **)&finalize = dlsym(library, "cuptiFinalize");
    if (finalize)
        failed("finalize", finalize());
}

/* Let the file of records begin, and CUPTI be loaded; nothing is asked of it. */
__attribute__((visibility("default"))) void call_prices_begin(void)
{
    has_cuda = 0;
    collector_init();
    collector_begin();
    is_active = has_cuda = 1; /* or CUDA's initialization would ask for everything */
    load();
}

__attribute__((visibility("default"))) void call_prices_stage(const char *name)
{
    const int kinds = sizeof KINDS / sizeof *KINDS;
    if (!strcmp(name, "subscribed"))
        subscribe();
    else if (!strcmp(name, "graph nodes watched"))
        watch_graphs();
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
        detach();
}
