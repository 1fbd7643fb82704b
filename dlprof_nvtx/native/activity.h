/* Reads the buffers that CUPTI has filled, and writes what is in them as compact records. */

#ifndef DLPROF_ACTIVITY_H
#define DLPROF_ACTIVITY_H

#include <stddef.h>
#include <stdint.h>

/* Register `handler` for the end of the program when CUPTI asks for its first buffer: what CUPTI
   has registered until then runs after it. */
void activity_begin(void (*handler)(void));
void activity_request(uint8_t **buffer, size_t *bytes, size_t *most_records);
void activity_complete(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);
int activity_outstanding(void);
uint64_t activity_dropped(void);
/* Count the lost records anew, and write all names again: another file begins. */
void activity_repeat(void);
void activity_forget(void);

#endif
