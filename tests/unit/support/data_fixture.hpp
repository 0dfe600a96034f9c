// A temporary folder with real files, and an experiment that reads them.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "experiment/experiment.hpp"
#include "support/refusal.hpp"

namespace wmtp {

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "wmtp-data-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    const auto file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  Experiment text_experiment() const {
    Experiment experiment;
    experiment.file = folder_ / "experiment.toml";
    experiment.data.kind = DataKind::text;
    experiment.data.files = {at("text/**")};
    experiment.model.vocab_size = 258;
    experiment.train.steps = 1;
    experiment.train.batch_size = 1;
    experiment.train.sequence_length = 8;
    return experiment;
  }

  std::filesystem::path folder_;
};

/// The text of the error that `act` throws; fails when it throws none or has a different status.
inline std::string error_of(ExitStatus status, const std::function<void()>& act) { return test::refusal(status, act); }

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace wmtp
