// C++'s operators new and delete, for C.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
void *new_plain(size_t size);
void *new_array(size_t size);
void *new_nothrow(size_t size);
void *new_aligned(size_t size, size_t alignment);
void delete_sized(void *data, size_t size);
void delete_array(void *data);
void delete_aligned(void *data, size_t alignment);
#ifdef __cplusplus
}
#endif
