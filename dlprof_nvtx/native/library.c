#define _GNU_SOURCE
#include "library.h"
#include "abi.h"
#include "output.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUPTI_VARIABLE "DLPROF_COLLECT_CUPTI"

struct cupti_functions cupti;
static _Atomic uint32_t version;

/* Its API version; 0: it was not loaded. */
uint32_t library_version(void) { return version; }

/* Note an error of CUPTI in the file; 0: there is none. */
int library_failed(const char *what, int result)
{
    char text[512];
    const char *name = NULL;
    if (!result)
        return 0;
    if (cupti.GetResultString)
        cupti.GetResultString(result, &name);
    snprintf(text, sizeof text, "%s: %s", what, name ? name : "unknown error");
    output_note(result == ERROR_OTHER_SUBSCRIBER ? "other_subscriber" : "cupti_error", text);
    return 1;
}

static int find_loaded(struct dl_phdr_info *info, size_t size, void *path)
{
    (void)size;
    if (!info->dlpi_name || !strstr(info->dlpi_name, "/libcupti.so"))
        return 0;
    snprintf(path, 4096, "%s", info->dlpi_name);
    return 1;
}

/* Note the version, once in each file; 0: CUPTI is too old. */
static int note_version(void)
{
    char text[16];
    snprintf(text, sizeof text, "%u", version);
    output_note("cupti_version", text);
    if (version < OLDEST_CUPTI)
        output_note("old_cupti", text);
    return version >= OLDEST_CUPTI;
}

/* Load CUPTI; 0: there is none that the collector can use, which is noted. */
int library_load(void)
{
    char path[4096] = "";
    const char *given = getenv(CUPTI_VARIABLE);
    void *library = NULL;
    uint32_t found = 0;
    if (version)
        return note_version();
    dl_iterate_phdr(find_loaded, path);
    if (!*path && given)
        snprintf(path, sizeof path, "%s", given);
    if (*path)
        library = dlopen(path, RTLD_NOW);
    if (!library) {
        output_note("no_cupti", *path ? dlerror() : "");
        return 0;
    }
    output_note("cupti", path);
#define LOOK_UP(name, arguments, needed)                                                           \
    *(void **)&cupti.name = dlsym(library, "cupti" #name);                                         \
    if (needed && !cupti.name) {                                                                   \
        output_note("missing_function", "cupti" #name);                                            \
        return 0;                                                                                  \
    }
    CUPTI_FUNCTIONS(LOOK_UP)
    if (library_failed("cuptiGetVersion", cupti.GetVersion(&found)))
        return 0;
    version = found;
    return note_version();
}

/* A function of the driver, which has loaded this library; NULL: it has none of that name. */
void *library_driver_function(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found;
    if (!driver)
        return NULL;
    found = dlsym(driver, name);
    dlclose(driver); /* The program keeps it loaded. */
    return found;
}
