#include "checkpoint/base_model.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "checkpoint/safetensors_folder.hpp"
#include "io/input_file.hpp"

namespace wmtp {

bool is_partial_checkpoint(const std::filesystem::path& folder) {
  return is_there(folder / base_model_name) && is_training_checkpoint(folder);
}

BaseModel read_base_model(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / base_model_name;
  const auto refuse = [&](const std::string& why) { return Error(ExitStatus::data, file.string() + ": " + why); };
  const Json document = parse_strict_json(read_small_file(file, 1 << 20), file.string());
  try {
    BaseModel base = document.get<BaseModel>();
    if (base.format_version == BaseModel().format_version) return base;
    throw refuse("format_version is " + std::to_string(base.format_version) + "; use the program that wrote it");
  } catch (const Json::exception& mistake) {
    throw refuse(std::string(mistake.what()) + "; the file was not written by this program");
  }
}

}  // namespace wmtp
