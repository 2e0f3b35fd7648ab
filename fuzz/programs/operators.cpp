#include "operators.h"

#include <new>

void *new_plain(size_t size) { return ::operator new(size); }
void *new_array(size_t size) { return ::operator new[](size); }
void *new_nothrow(size_t size) { return ::operator new(size, std::nothrow); }
void *new_aligned(size_t size, size_t alignment)
{
    return ::operator new(size, std::align_val_t(alignment));
}
void delete_sized(void *data, size_t size) { ::operator delete(data, size); }
void delete_array(void *data) { ::operator delete[](data); }
void delete_aligned(void *data, size_t alignment)
{
    ::operator delete(data, std::align_val_t(alignment));
}
