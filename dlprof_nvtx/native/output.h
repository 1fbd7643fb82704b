/* The file of records of this process, and messages to dlprof in its folder. */

#ifndef DLPROF_OUTPUT_H
#define DLPROF_OUTPUT_H

#include "records.h"

#include <limits.h>
#include <stddef.h>

extern _Atomic int output_is_on;      /* whether activity and ranges are recorded now */
extern _Atomic int output_has_failed; /* the file cannot be written: nothing more is */

int output_init(const char *folder);
int output_path(char path[PATH_MAX], const char *name);
void output_message(const char *folder, const char *name);
void output_fail(const char *what);
void output_write(uint32_t type, uint32_t record_bytes, const void *data, uint64_t bytes);
void output_write_pair(uint32_t type, uint32_t record_bytes, const void *data, uint64_t bytes,
                       uint32_t next_type, const void *text, uint64_t text_bytes);
void output_note(const char *name, const char *value);
void output_close(void);
/* Complete the file; what follows is written to another one. */
void output_next(void);
void output_forget(void);

uint64_t output_now(void);
uint32_t output_thread(void);

#endif
