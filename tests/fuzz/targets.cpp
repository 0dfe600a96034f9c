#include "targets.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/safetensors/safetensors_header.hpp"

namespace wmtp::fuzz {
namespace {

template <typename Call>
void expect_read_or_refused(Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.status() != ExitStatus::data) throw;
  }
}

void safetensors_header(const uint8_t* bytes, size_t count) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  expect_read_or_refused([&] {
    const int64_t file_size = 8 + int64_t(count) + 32;
    for (const TensorEntry& entry : parse_safetensors_header(text, file_size, "input").entries)
      if (entry.begin < file_size - 32 || entry.end > file_size || entry.begin > entry.end) __builtin_trap();
  });
}

void manifest(const uint8_t* bytes, size_t count) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  expect_read_or_refused([&] { parse_manifest(text, "input"); });
}

/// Adds a valid checksum to any object, so that mutations get past its check.
void sealed_manifest(const uint8_t* bytes, size_t count) {
  Json document = Json::parse(bytes, bytes + count, nullptr, false);
  if (!document.is_object()) return;
  document.erase("crc32c");
  const std::string body = document.dump();
  document["crc32c"] = crc32c(body.data(), body.size());
  const std::string text = document.dump() + "\n";
  expect_read_or_refused([&] { parse_manifest(text, "input"); });
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::string document =
      R"({"format":"wmtp-checkpoint","version":1,"step":7,"world_size":2,"kind":"resume","config_hash":"ab",)"
      R"("plugins":{"pipeline rho1":"cd"},"state":{"tokens":9,"drawn":4,)"
      R"("guard_window":[2.5],"skipped_in_a_row":1,"optimizer_steps":{"layers.0":6},"pipeline_tensors":{"seen":[6]},)"
      R"("loss_scale":{"scale":4,"finite_steps":2,"overflows_left":1},"base_fingerprint":"f"},)"
      R"("files":{"rank-0000.safetensors":{"bytes":100,"crc32c":5},"rank-0001.safetensors":{"bytes":9,"crc32c":5}},)"
      R"("slices":[{"tensor":"pipeline/seen","shape":[6],"begin":0,"end":6,"file":"rank-0000.safetensors","entry":"t","crc32c":1}]})";
  static const std::vector<Target> all{
      {"safetensors_header",
       safetensors_header,
       {R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
        R"("b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})"}},
      {"manifest", manifest, {document}},
      {"sealed_manifest", sealed_manifest, {document}}};
  return all;
}

}  // namespace wmtp::fuzz
