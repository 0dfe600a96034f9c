// Visibility: the sdk's types have one identity in the process; a plugin exports its entry and nothing else.
#pragma once

#define WMTP_SDK_API __attribute__((visibility("default")))
#define WMTP_PLUGIN_API extern "C" __attribute__((visibility("default"), used))
