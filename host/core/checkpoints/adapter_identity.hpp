// Who an adapter is: adapter.json, beside its numbers in adapter.safetensors. Knows no LibTorch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/experiment/experiment.hpp"

namespace wmtp {

inline constexpr const char* adapter_tensors_name = "adapter.safetensors";
inline constexpr const char* adapter_identity_name = "adapter.json";
inline constexpr int adapter_format_version = 1;

/// What an adapter's numbers mean something with.
struct AdapterIdentity {
  std::string plugin;   ///< name
  std::string version;  ///< of the plugin; told, not compared
  OptionValues options;
  std::string base_path = {};  ///< where the model was that it was trained beside; told, not compared; "" unknown
};

/// The document of adapter.json; `base` is the fingerprint_text of the model that the adapter stands beside.
nlohmann::json identity_json(const AdapterIdentity& adapter, const std::string& base);

}  // namespace wmtp
