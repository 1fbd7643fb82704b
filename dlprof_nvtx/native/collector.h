/* What the collector exports: to the CUDA driver, to NVTX, and to the program itself. */

#ifndef DLPROF_COLLECTOR_H
#define DLPROF_COLLECTOR_H

#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

/* The CUDA driver calls this while a program initializes CUDA. */
EXPORTED int InitializeInjection(void);

/* NVTX calls this, once for each library of the process that contains its headers. */
EXPORTED int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t));

/* Record from now on. 1: it does, with CUDA's activity as soon as CUDA is initialized; 0: it does
   not, because there is no folder, the disk is full, or CUPTI is missing, too old, or held by
   another profiler. Then nothing has changed, and it may be tried again. */
EXPORTED int dlprof_collector_begin(void);

/* Record no more, and take CUPTI out of the process; 1: done, or nothing was to be done. Waits for
   work that is on its way, for a second at most.

   Both may be called any number of times, by any thread, but not by a handler of a signal nor while
   this thread is inside a call of CUDA. The thread of the collector does the work: if CUPTI does not
   return, they do after two seconds, and say 0. */
EXPORTED int dlprof_collector_detach(void);

#endif
