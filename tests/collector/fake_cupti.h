/* What the stand-ins of CUDA and CUPTI tell each other. */

#include <stddef.h>
#include <stdint.h>

#define FAKE_CUPTI(X)                                                                              \
    X(void, lock, (void))                                                                          \
    X(void, unlock, (void))                                                                        \
    X(uint32_t, next, (void))                                                                      \
    X(int, is_off, (uint32_t id))                                                                  \
    X(uint64_t, now, (void))                                                                       \
    X(uint8_t *, record, (int kind))                                                               \
    X(void, leave_open, (uint8_t *record))                                                         \
    X(void, callback, (int domain, uint32_t id, const void *data))

#define FAKE_DECLARE(type, name, arguments) type fake_cupti_##name arguments;
FAKE_CUPTI(FAKE_DECLARE)
