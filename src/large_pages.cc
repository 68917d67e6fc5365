// Searches allocate much and small, and a fault of a page costs as much as hundreds of allocations:
// the allocator takes pages of 2 MiB, where the system has them to give. Before any library's
// constructor has allocated, since the allocator's first memory lasts a search through.

#include <mimalloc.h>

namespace {

void prefer_large_pages() { mi_option_set_enabled_default(mi_option_large_os_pages, true); }

}  // namespace

__attribute__((section(".preinit_array"),
               used)) void (*const kBeforeConstructors)() = prefer_large_pages;
