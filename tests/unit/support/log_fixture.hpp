// A folder for each test, and small helpers to read a real database.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "log/database.hpp"
#include "log/log_reader.hpp"
#include "log/run_log.hpp"
#include "support/refusal.hpp"

namespace wmtp {

using test::refusal;

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "wmtp-log-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    file_ = folder_ / "wmtp.db";
  }
  ~LogTest() override { std::filesystem::remove_all(folder_); }

  static RunStart start(const std::string& name = "tiny") {
    RunStart start;
    start.name = name;
    start.pipeline = "rho1";
    start.adapter = "full";
    start.experiment_toml = "name = \"tiny\"\n";
    start.resolved_toml = "name = \"tiny\"\nseed = 0\n";
    start.config_hash = "c0ffee";
    start.strategy = "full_shard";
    start.precision = "fp32";
    start.device = "cpu";
    start.version = "0.1.0";
    return start;
  }

  int64_t integer(const std::string& sql) const { return Database(file_, Database::Mode::read).integer(sql); }
  std::string text(const std::string& sql) const { return Database(file_, Database::Mode::read).text(sql); }
  void execute(const std::string& sql) const {
    Database database(file_, Database::Mode::write);
    database.set_busy_timeout(std::chrono::seconds(5));
    database.execute(sql);
  }

  /// Polls for at most ten seconds.
  static bool eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 1000; ++i) {
      if (holds()) return true;
      usleep(10'000);
    }
    return false;
  }

  /// The exit code of `work` in a child process; 99 when it threw.
  static pid_t in_child(const std::function<int()>& work) {
    const pid_t child = fork();
    if (child != 0) return child;
    int code = 99;
    try {
      code = work();
    } catch (const std::exception& error) {
      fprintf(stderr, "child: %s\n", error.what());
    }
    _exit(code);
  }
  static int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  std::filesystem::path folder_, file_;
};

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace wmtp
