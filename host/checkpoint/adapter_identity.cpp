#include "checkpoint/adapter_identity.hpp"

#include "base/json.hpp"

namespace wmtp {

Json identity_json(const AdapterIdentity& adapter, const std::string& base) {
  Json identity{{"format_version", adapter_format_version},
                {"plugin", adapter.plugin},
                {"version", adapter.version},
                {"options", adapter.options},
                {"base_fingerprint", base}};
  if (!adapter.base_path.empty()) identity["base_path"] = adapter.base_path;
  return identity;
}

}  // namespace wmtp
