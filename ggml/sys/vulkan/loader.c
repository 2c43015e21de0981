// The functions of libvulkan that ggml calls by name; it finds all others through them. Each forwards to libvulkan, which is
// opened by the first call. So the program is not linked to libvulkan and starts without it.
//
// Callers ask longhand_vulkan_open() first: ggml takes it for granted that the functions are there.

#define VK_NO_PROTOTYPES
#include <stddef.h>
#include <vulkan/vulkan_core.h>

// Of one system each: open_library() is libvulkan, or null; symbol() finds a function in it, and problem() says why it is not there.
#ifdef _WIN32
#include <stdio.h>
#include <windows.h>

static const char NAME[] = "vulkan-1.dll";

// From the folder of Windows only, where drivers put it: a file of this name elsewhere may be anybody's.
static void * open_library(void) {
    return (void *) LoadLibraryExA(NAME, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
}

static PFN_vkVoidFunction symbol(void * library, const char * name) {
    return (PFN_vkVoidFunction) (void *) GetProcAddress((HMODULE) library, name);
}

static const char * problem(void) {
    static _Thread_local char text[64];
    snprintf(text, sizeof text, "%s: error %lu", NAME, GetLastError());
    return text;
}
#else
#include <dlfcn.h>

#ifdef __APPLE__
static const char * const NAMES[] = { "libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib" };
#else
static const char * const NAMES[] = { "libvulkan.so.1", "libvulkan.so" };
#endif

static void * open_library(void) {
    void * library = NULL;
    for (size_t i = 0; library == NULL && i < sizeof NAMES / sizeof *NAMES; i++) {
        library = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

static PFN_vkVoidFunction symbol(void * library, const char * name) {
    return (PFN_vkVoidFunction) dlsym(library, name);
}

static const char * problem(void) {
    return dlerror();
}
#endif

// libvulkan, or null. It is opened once; where two threads do so at the same time, both get the same.
static void * library(void) {
    static _Atomic(void *) opened;
    if (opened == NULL) {
        opened = open_library();
    }
    return opened;
}

// Opens libvulkan. Returns null, or what the system says.
const char * longhand_vulkan_open(void) {
    return library() != NULL ? NULL : problem();
}

static PFN_vkVoidFunction find(const char * name) {
    void * found = library();
    return found != NULL ? symbol(found, name) : NULL;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char * name) {
    PFN_vkGetInstanceProcAddr function = (PFN_vkGetInstanceProcAddr) find("vkGetInstanceProcAddr");
    return function != NULL ? function(instance, name) : NULL;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice device, const char * name) {
    PFN_vkGetDeviceProcAddr function = (PFN_vkGetDeviceProcAddr) find("vkGetDeviceProcAddr");
    return function != NULL ? function(device, name) : NULL;
}

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 * features) {
    PFN_vkGetPhysicalDeviceFeatures2 function = (PFN_vkGetPhysicalDeviceFeatures2) find("vkGetPhysicalDeviceFeatures2");
    if (function != NULL) {
        function(device, features);
    }
}

VKAPI_ATTR void VKAPI_CALL vkCmdCopyBuffer(
        VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count, const VkBufferCopy * regions) {
    PFN_vkCmdCopyBuffer function = (PFN_vkCmdCopyBuffer) find("vkCmdCopyBuffer");
    if (function != NULL) {
        function(commands, from, to, count, regions);
    }
}
