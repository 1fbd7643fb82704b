/* dlprof's own collector with a switch for what CUPTI records, for benchmarks.call_prices: modes take
   turns in one process, so that the speed of the machine does not differ between them. */

#include "cupti.c"

enum { OFF, KERNELS, WORK, KINDS_ALL, ALL, CALLS_ONLY, RECORDED_CALLS, DRIVER_ONLY, NO_EVENTS };

static void enable_kinds(int first, int last)
{
    int at;
    for (at = first; at < last; at++)
        failed("kind", cupti.ActivityEnable(KINDS[at]));
}

static void each_call(int domain, int (*set)(uint32_t, uint8_t), int only_recorded, uint8_t on)
{
    uint32_t cbid;
    if (!set) /* before CUDA 12.6 */
        return;
    for (cbid = 1; cbid < MOST_CALLBACKS; cbid++) {
        const char *name = NULL;
        if (!cupti.GetCallbackName(domain, cbid, &name) && name
            && (!only_recorded || is_recorded(domain, name)))
            set(cbid, on);
    }
}

/* Only the calls that are recorded, each switched on by itself. */
static void enable_recorded(int domain)
{
    each_call(domain,
              domain == DOMAIN_RUNTIME_API ? cupti.ActivityEnableRuntimeApi
                                           : cupti.ActivityEnableDriverApi,
              1, 1);
}

__attribute__((visibility("default"))) void call_prices_mode(int mode)
{
    const int kinds = sizeof KINDS / sizeof *KINDS;
    disable();
    each_call(DOMAIN_RUNTIME_API, cupti.ActivityEnableRuntimeApi, 0, 0);
    each_call(DOMAIN_DRIVER_API, cupti.ActivityEnableDriverApi, 0, 0);
    switch (mode) {
    case KERNELS:
        enable_kinds(0, 1);
        break;
    case WORK:
        enable_kinds(0, 4);
        break;
    case KINDS_ALL:
        enable_kinds(0, kinds);
        break;
    case ALL:
        enable_kinds(0, kinds);
        each_call(DOMAIN_RUNTIME_API, cupti.ActivityEnableRuntimeApi, 0, 1);
        enable_calls();
        break;
    case CALLS_ONLY:
        each_call(DOMAIN_RUNTIME_API, cupti.ActivityEnableRuntimeApi, 0, 1);
        enable_calls();
        break;
    case RECORDED_CALLS:
        enable_kinds(0, kinds);
        enable_recorded(DOMAIN_RUNTIME_API);
        enable_recorded(DOMAIN_DRIVER_API);
        break;
    case DRIVER_ONLY:
        enable_kinds(0, kinds);
        enable_recorded(DOMAIN_DRIVER_API);
        break;
    case NO_EVENTS:
        enable_kinds(0, 4);
        each_call(DOMAIN_RUNTIME_API, cupti.ActivityEnableRuntimeApi, 0, 1);
        enable_calls();
        break;
    default:
        break;
    }
}
