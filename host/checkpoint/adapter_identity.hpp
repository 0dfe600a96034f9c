// adapter.json: which plugin, options and base the parameters in adapter.safetensors belong to.
#pragma once

#include <string>

#include "base/json.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

inline constexpr const char* adapter_tensors_name = "adapter.safetensors";
inline constexpr const char* adapter_identity_name = "adapter.json";
inline constexpr int adapter_format_version = 1;

struct AdapterIdentity {
  std::string plugin;   ///< name
  std::string version;  ///< of the plugin; informational, not compared
  OptionValues options;
  std::string base_path = {};  ///< path of the model it was trained on; informational, not compared; "" if unknown
};

/// The content of adapter.json. `base`: fingerprint_text of the adapted model.
Json identity_json(const AdapterIdentity& adapter, const std::string& base);

}  // namespace wmtp
