/* The functions of CUPTI: of the library that the program has loaded, else of DLPROF_COLLECT_CUPTI. */

#ifndef DLPROF_LIBRARY_H
#define DLPROF_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

typedef void (*cupti_callback)(void *, int, uint32_t, const void *);
typedef void (*cupti_request)(uint8_t **, size_t *, size_t *);
typedef void (*cupti_completion)(void *, uint32_t, uint8_t *, size_t, size_t);

/* Name, arguments, and whether the collector needs it. */
#define CUPTI_FUNCTIONS(X)                                                                         \
    X(GetVersion, (uint32_t *), 1)                                                                 \
    X(GetResultString, (int, const char **), 1)                                                    \
    X(Subscribe, (void **, cupti_callback, void *), 1)                                             \
    X(Unsubscribe, (void *), 1)                                                                    \
    X(EnableCallback, (uint32_t, void *, int, uint32_t), 1)                                        \
    X(GetCallbackName, (int, uint32_t, const char **), 1)                                          \
    X(SetThreadIdType, (int), 1)                                                                   \
    X(ActivityRegisterCallbacks, (cupti_request, cupti_completion), 1)                             \
    X(ActivityRegisterTimestampCallback, (uint64_t (*)(void)), 1)                                  \
    X(ActivityEnable, (int), 1)                                                                    \
    X(ActivityDisable, (int), 1)                                                                   \
    X(ActivityFlushAll, (uint32_t), 1)                                                             \
    X(ActivityFlushPeriod, (uint32_t), 1)                                                          \
    X(ActivityGetNextRecord, (uint8_t *, size_t, uint8_t **), 1)                                   \
    X(ActivityGetNumDroppedRecords, (void *, uint32_t, size_t *), 1)                               \
    X(GetGraphNodeId, (void *, uint64_t *), 0)                                                     \
    X(ActivityEnableDriverApi, (uint32_t, uint8_t), 0)                                             \
    X(ActivityEnableRuntimeApi, (uint32_t, uint8_t), 0)                                            \
    X(Finalize, (void), 0)

#define CUPTI_DECLARE(name, arguments, needed) int (*name) arguments;
extern struct cupti_functions {
    CUPTI_FUNCTIONS(CUPTI_DECLARE)
} cupti;

int library_load(void);
uint32_t library_version(void);
int library_failed(const char *what, int result);
void *library_driver_function(const char *name);

#endif
