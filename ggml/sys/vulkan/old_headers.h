// Types that ggml names, and that Vulkan's headers before the extension VK_EXT_layer_settings lack, such as 1.3.239 of Debian 12.
// ggml uses them only where it is built for validation.
#pragma once

#include <vulkan/vulkan.hpp>

#ifndef VK_EXT_layer_settings
namespace vk {

enum class LayerSettingTypeEXT { eBool32 };

struct LayerSettingEXT {
    const char *        layer;
    const char *        setting;
    LayerSettingTypeEXT type;
    uint32_t            count;
    const void *        values;
};

// Has no settings.
struct LayerSettingsCreateInfoEXT {
    VkStructureType type     = VkStructureType(1000496000);
    const void *    next     = nullptr;
    uint32_t        count    = 0;
    const void *    settings = nullptr;

    template <typename Settings> explicit LayerSettingsCreateInfoEXT(const Settings &) {}
};

}  // namespace vk
#endif
