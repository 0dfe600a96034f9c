// The only header that a plugin includes, and the macro at the end of its source:
//
//   WMTP_PIPELINE(Focal, "focal", "1.0", "down-weights tokens that are already easy")
//
// The macro exports one symbol of plain data. Its NAME contains the fingerprint of the toolchain (sdk, LibTorch,
// compiler, C++ ABI), so the host can refuse a plugin built with another one before any of its code runs.
#pragma once

#include <type_traits>

#include <wmtp/adapter.hpp>
#include <wmtp/auxiliary_loss.hpp>
#include <wmtp/fingerprint.hpp>
#include <wmtp/pipeline.hpp>

namespace wmtp {

/// Plain data of the exported symbol. Exactly one factory is set, which gives the plugin's kind. It returns a new
/// instance, owned by the caller. The library is never closed, so the instance may live as long as the process.
struct PluginEntry {
  const char* name;
  const char* version;
  const char* summary;
  Weighting* (*weighting)() = nullptr;
  Wrapper* (*wrapper)() = nullptr;
  Objective* (*objective)() = nullptr;
  Adapter* (*adapter)() = nullptr;
  AuxiliaryLoss* (*auxiliary_loss)() = nullptr;
};

namespace detail {
template <class Base, class Plugin> Base* create() { return new Plugin; }

template <class Plugin> constexpr PluginEntry entry_of(const char* name, const char* version, const char* summary) {
  static_assert(std::is_base_of_v<Weighting, Plugin> || std::is_base_of_v<Objective, Plugin> ||
                std::is_base_of_v<Adapter, Plugin> || std::is_base_of_v<AuxiliaryLoss, Plugin>,
                "a plugin derives from wmtp::Weighting, Objective, Adapter or AuxiliaryLoss");
  PluginEntry entry{name, version, summary};
  if constexpr (std::is_base_of_v<Wrapper, Plugin>) entry.wrapper = &create<Wrapper, Plugin>;
  else if constexpr (std::is_base_of_v<Weighting, Plugin>) entry.weighting = &create<Weighting, Plugin>;
  else if constexpr (std::is_base_of_v<Objective, Plugin>) entry.objective = &create<Objective, Plugin>;
  else if constexpr (std::is_base_of_v<AuxiliaryLoss, Plugin>) entry.auxiliary_loss = &create<AuxiliaryLoss, Plugin>;
  else entry.adapter = &create<Adapter, Plugin>;
  return entry;
}

/// Plugins linked into the host (the static build) register here instead of being loaded from files.
struct WMTP_SDK_API BuiltIn {
  explicit BuiltIn(const PluginEntry& entry);
  static const std::vector<const PluginEntry*>& all();
};
}  // namespace detail
}  // namespace wmtp

#ifdef WMTP_STATIC_PLUGIN
#define WMTP_DETAIL_PLUGIN(Plugin, name, version, summary)                                                      \
  namespace {                                                                                                   \
  constexpr ::wmtp::PluginEntry wmtp_entry = ::wmtp::detail::entry_of<Plugin>(name, version, summary);           \
  const ::wmtp::detail::BuiltIn wmtp_built_in{wmtp_entry};                                                      \
  }
#else
#define WMTP_DETAIL_PLUGIN(Plugin, name, version, summary) \
  WMTP_PLUGIN_API constexpr ::wmtp::PluginEntry WMTP_ENTRY_SYMBOL = \
      ::wmtp::detail::entry_of<Plugin>(name, version, summary);
#endif

#define WMTP_PIPELINE(Plugin, name, version, summary)                                                         \
  static_assert(std::is_base_of_v<::wmtp::Weighting, Plugin> || std::is_base_of_v<::wmtp::Objective, Plugin>, \
                "a pipeline derives from wmtp::Weighting or Objective");                                      \
  WMTP_DETAIL_PLUGIN(Plugin, name, version, summary)
#define WMTP_ADAPTER(Plugin, name, version, summary)                                                          \
  static_assert(std::is_base_of_v<::wmtp::Adapter, Plugin>, "an adapter derives from wmtp::Adapter");         \
  WMTP_DETAIL_PLUGIN(Plugin, name, version, summary)
#define WMTP_AUXILIARY_LOSS(Plugin, name, version, summary)                                                   \
  static_assert(std::is_base_of_v<::wmtp::AuxiliaryLoss, Plugin>,                                             \
                "an auxiliary loss derives from wmtp::AuxiliaryLoss");                                        \
  WMTP_DETAIL_PLUGIN(Plugin, name, version, summary)
