// Files are read in parts, so that a corpus need not fit into memory.
#include "base/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"

namespace wmtp {
namespace {

void check(int result) {
  if (result != 1) throw Error(ExitStatus::bug, "the SHA-256 of libcrypto failed: check the OpenSSL installation");
}

[[noreturn]] void refuse(const std::filesystem::path& file, int error) {
  throw Error(ExitStatus::data,
              file.string() + ": cannot be read (" + std::strerror(error) + "); check path and permissions");
}

}  // namespace

struct Sha256::Context {
  Context() : digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    check(EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr));
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;

Sha256& Sha256::add(std::string_view bytes) {
  check(EVP_DigestUpdate(context_->digest.get(), bytes.data(), bytes.size()));
  return *this;
}

Sha256& Sha256::add_file(const std::filesystem::path& file, WorkProgress* progress) {
  check_is_file(file);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rbe"), &std::fclose);
  if (!stream) refuse(file, errno);
  std::vector<char> piece(1 << 18);
  while (const size_t got = std::fread(piece.data(), 1, piece.size(), stream.get())) {
    add({piece.data(), got});
    if (progress) progress->advance(int64_t(got));
  }
  if (std::ferror(stream.get())) refuse(file, errno);
  return *this;
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned length = 0;
  check(EVP_DigestFinal_ex(context_->digest.get(), bytes.data(), &length));
  return to_hex(std::span(bytes).first(length));
}

std::string sha256_hex(std::string_view bytes) { return Sha256().add(bytes).hex(); }
std::string short_sha256_hex(std::string_view bytes) { return sha256_hex(bytes).substr(0, 16); }
std::string file_sha256_hex(const std::filesystem::path& file, WorkProgress* progress) {
  return Sha256().add_file(file, progress).hex();
}

}  // namespace wmtp
