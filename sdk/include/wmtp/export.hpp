// Visibility: the sdk's types have a single identity in the process; a plugin exports only its entry symbol.
#pragma once

#define WMTP_SDK_API __attribute__((visibility("default")))
#define WMTP_PLUGIN_API extern "C" __attribute__((visibility("default"), used))
