// The functions of libvulkan that ggml calls by name; it finds all others through them. Each forwards to libvulkan, which is
// opened by the first call. So the program is not linked to libvulkan and starts without it.
//
// Callers ask longhand_vulkan_open() first: ggml takes it for granted that the functions are there.

#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <stddef.h>
#include <vulkan/vulkan_core.h>

#ifdef __APPLE__
static const char * const NAMES[] = { "libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib" };
#else
static const char * const NAMES[] = { "libvulkan.so.1", "libvulkan.so" };
#endif

// libvulkan, or null. Opening it once more gives the same handle.
static void * library(void) {
    static _Atomic(void *) opened;
    for (size_t i = 0; opened == NULL && i < sizeof NAMES / sizeof *NAMES; i++) {
        opened = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL);
    }
    return opened;
}

// Opens libvulkan. Returns null, or what the system says.
const char * longhand_vulkan_open(void) {
    return library() != NULL ? NULL : dlerror();
}

static PFN_vkVoidFunction find(const char * name) {
    void * found = library();
    return found != NULL ? (PFN_vkVoidFunction) dlsym(found, name) : NULL;
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
