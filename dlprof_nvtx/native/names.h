/* Names of kernels and calls by number, and which calls are recorded. */

#ifndef DLPROF_NAMES_H
#define DLPROF_NAMES_H

#include <stdint.h>

struct call {
    uint32_t name; /* 0: not recorded, or without a name */
    uint8_t is_known, is_recorded;
};

/* The number of a text, 0 for none. One thread at a time may call this and the next one. */
uint32_t names_id(const char *text);
const struct call *names_call(int is_driver, uint32_t cbid);
int names_is_recorded(int domain, const char *name);

/* Write all names, for a file that is not the first one of the process. */
void names_repeat(void);
/* In a child: drop what another thread of the parent may have been changing. The memory is not
   freed: it is the parent's, unchanged, and a lock held across the fork to make it consistent
   could wait for a thread that waits for a lock of another handler of forks. */
void names_forget(void);

#endif
