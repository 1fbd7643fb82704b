/* The part of CUPTI's documented binary interface that the collector uses.

   CUPTI's records begin with the same fields at the same places in all versions from CUDA 11.8 to
   13.5; later versions only append. So fields are read by their place, without CUPTI's headers.
   tests/collector/check_abi.c compares every number here with the headers of an installed CUPTI. */

#ifndef DLPROF_ABI_H
#define DLPROF_ABI_H

#define OLDEST_CUPTI 18    /* CUDA 11.8 */
#define FINALIZE_CUPTI 24  /* CUDA 12.6: may be attached again after it was detached */
#define SYNC_IDS_CUPTI 26  /* CUDA 12.8: events have ids that tell their recordings apart */

#define KIND_MEMCPY 1
#define KIND_MEMSET 2
#define KIND_KERNEL 3
#define KIND_DRIVER 4
#define KIND_RUNTIME 5
#define KIND_CONCURRENT_KERNEL 10
#define KIND_OVERHEAD 17
#define KIND_MEMCPY_PEER 22
#define KIND_CUDA_EVENT 36
#define KIND_SYNCHRONIZATION 38

#define DOMAIN_DRIVER_API 1
#define DOMAIN_RUNTIME_API 2
#define DOMAIN_RESOURCE 3
#define CALLBACK_GRAPH_NODE_CREATED 13
#define CALLBACK_GRAPH_NODE_CLONED 20
#define CALLBACK_PROFILER_START 308
#define CALLBACK_PROFILER_STOP 309
#define CALLBACK_DRIVER_VERSION 2
#define CALLBACK_DEVICE_COUNT 4
#define SITE_EXIT 1

#define FLUSH_FORCED 1
#define THREAD_IDS_OF_SYSTEM 1
#define COPY_PEER 10
#define FLAG_ASYNC 1
#define OBJECT_THREAD 2
#define ERROR_LIMIT 12
#define ERROR_OTHER_SUBSCRIBER 39

/* Places of the fields. */
#define KERNEL_REGISTERS 6
#define KERNEL_START 16
#define KERNEL_END 24
#define KERNEL_DEVICE 40
#define KERNEL_CONTEXT 44
#define KERNEL_STREAM 48
#define KERNEL_GRID 52
#define KERNEL_BLOCK 64
#define KERNEL_STATIC 76
#define KERNEL_DYNAMIC 80
#define KERNEL_CORRELATION 92
#define KERNEL_NAME 104
#define KERNEL_LAUNCH_TYPE 136
#define KERNEL_GRAPH_NODE 144
#define KERNEL_GRAPH 156

#define COPY_KIND 4
#define COPY_SOURCE 5
#define COPY_TARGET 6
#define COPY_FLAGS 7
#define MEMORY_BYTES 8
#define MEMORY_START 16
#define MEMORY_END 24
#define MEMORY_DEVICE 32
#define MEMORY_CONTEXT 36
#define MEMORY_STREAM 40
#define MEMORY_CORRELATION 44
#define MEMORY_GRAPH_NODE 64
#define MEMORY_GRAPH 72
#define SET_MEMORY_KIND 50
#define PEER_CORRELATION 60
#define PEER_GRAPH_NODE 72
#define PEER_GRAPH 80

#define API_CBID 4
#define API_START 8
#define API_END 16
#define API_THREAD 28
#define API_CORRELATION 32
#define API_RESULT 36

#define SYNC_TYPE 4
#define SYNC_START 8
#define SYNC_END 16
#define SYNC_CORRELATION 24
#define SYNC_CONTEXT 28
#define SYNC_STREAM 32
#define SYNC_EVENT 36
#define SYNC_EVENT_SYNC 40

#define EVENT_CORRELATION 4
#define EVENT_CONTEXT 8
#define EVENT_STREAM 12
#define EVENT_ID 16
#define EVENT_EVENT_SYNC 48

#define OVERHEAD_KIND 4
#define OVERHEAD_OBJECT_KIND 8
#define OVERHEAD_THREAD 16
#define OVERHEAD_START 24
#define OVERHEAD_END 32

#define RESOURCE_DESCRIPTOR 16
#define GRAPH_NODE 16
#define GRAPH_ORIGINAL_NODE 24

#endif
