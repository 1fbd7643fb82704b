/* Between the parts of the collector that concern CUPTI. */

#ifndef DLPROF_ACTIVITY_H
#define DLPROF_ACTIVITY_H

#include <stddef.h>
#include <stdint.h>

struct call {
    uint32_t name; /* 0: not recorded, or without a name */
    uint8_t is_known, is_recorded;
};

/* names.c; the caller of the first two holds the lock of activity.c */
uint32_t name_of(const char *text);
const struct call *call_of(int is_driver, uint32_t cbid);
int is_recorded(int domain, const char *name);
void names_forget(void);

/* activity.c */
extern uint64_t activity_dropped;
void activity_request(uint8_t **buffer, size_t *bytes, size_t *most_records);
void activity_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);
void activity_forget(void);

/* cupti.c */
int cupti_callback_name(int domain, uint32_t cbid, const char **name);
int cupti_next_record(uint8_t *buffer, size_t valid, uint8_t **record);
int cupti_lost_records(void *context, uint32_t stream, size_t *count);

#endif
