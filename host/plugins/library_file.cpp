#include "plugins/library_file.hpp"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <regex>
#include <utility>

#include "base/error.hpp"
#include "base/normal_path.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr char entry_prefix[] = "wmtp_plugin__";

#if defined(__x86_64__)
constexpr uint16_t host_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t host_machine = EM_AARCH64;
#else
#error "unknown ELF machine number of this processor"
#endif

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& reason) {
  throw Error(ExitStatus::plugin, file.string() + ": " + reason);
}

std::string machine_name(uint16_t machine) {
  constexpr std::pair<int, const char*> names[] = {
      {EM_X86_64, "x86-64"}, {EM_AARCH64, "aarch64"}, {EM_386, "i386"}, {EM_ARM, "arm"}, {EM_RISCV, "riscv"}};
  for (const auto& [number, name] : names)
    if (number == machine) return name;
  return "ELF machine " + std::to_string(machine);
}

/// The first bytes in printable form.
std::string beginning(const std::string& bytes) {
  std::string text;
  for (unsigned char c : bytes.substr(0, 16)) text += std::isprint(c) ? char(c) : '.';
  return "\"" + text + "\"";
}

/// Reads parts of the file; a part beyond its end means that the file is truncated.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : path_(file), stream_(file, std::ios::binary) {
    if (!stream_) refuse(path_, std::string("cannot be read: ") + std::strerror(errno));
    size_ = std::filesystem::file_size(file);
  }

  uint64_t size() const { return size_; }

  void require(uint64_t offset, uint64_t count, const std::string& what) const {
    if (offset > size_ || count > size_ - offset) {
      refuse(path_, "truncated or damaged: its " + what + " should end at byte " +
                        (count > UINT64_MAX - offset ? "2^64" : std::to_string(offset + count)) +
                        ", but the file has " + std::to_string(size_) + "; build or copy the plugin again");
    }
  }

  std::string bytes(uint64_t offset, uint64_t count, const std::string& what) {
    require(offset, count, what);
    std::string result(count, '\0');
    stream_.seekg(std::streamoff(offset));
    if (!stream_.read(result.data(), std::streamsize(count))) refuse(path_, "cannot be read: " + what);
    return result;
  }

  template <class T>
  std::vector<T> table(uint64_t offset, uint64_t count, const std::string& what) {
    if (count > size_ / sizeof(T)) require(size_, count, what);
    const std::string raw = bytes(offset, count * sizeof(T), what);
    std::vector<T> result(count);
    std::memcpy(result.data(), raw.data(), raw.size());
    return result;
  }

 private:
  std::filesystem::path path_;
  std::ifstream stream_;
  uint64_t size_ = 0;
};

Elf64_Ehdr read_header(Reader& reader, const std::filesystem::path& file) {
  if (reader.size() == 0) refuse(file, "empty file; build the plugin again");
  const std::string start = reader.bytes(0, std::min<uint64_t>(reader.size(), sizeof(Elf64_Ehdr)), "first bytes");
  if (start.compare(0, SELFMAG, ELFMAG) != 0) {
    refuse(file, "not a shared library: it begins with " + beginning(start) +
                     " instead of the ELF signature; build plugins with wmtp_add_plugin");
  }
  reader.require(0, sizeof(Elf64_Ehdr), "ELF header");
  Elf64_Ehdr header;
  std::memcpy(&header, start.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    refuse(file, "built for a 32-bit or big-endian machine; this host is 64-bit, little-endian");
  if (header.e_machine != host_machine)
    refuse(file, "built for " + machine_name(header.e_machine) + "; this host is " + machine_name(host_machine));
  if (header.e_type != ET_DYN)
    refuse(file, "an ELF file of type " + std::to_string(header.e_type) + ", not a shared library (type 3)");
  return header;
}

void check_segments(Reader& reader, const Elf64_Ehdr& header, const std::filesystem::path& file) {
  if (header.e_phentsize != sizeof(Elf64_Phdr)) refuse(file, "damaged: its segment table has an unexpected entry size");
  for (const Elf64_Phdr& segment : reader.table<Elf64_Phdr>(header.e_phoff, header.e_phnum, "segment table"))
    if (segment.p_type == PT_LOAD) reader.require(segment.p_offset, segment.p_filesz, "segment");
}

/// A library whose headers, sections and segments are within the file.
class Library {
 public:
  explicit Library(const std::filesystem::path& file) : file_(file), reader_(file) {
    const Elf64_Ehdr header = read_header(reader_, file);
    check_segments(reader_, header, file);
    if (header.e_shentsize != sizeof(Elf64_Shdr)) refuse(file, "damaged: it has no section table");
    sections_ = reader_.table<Elf64_Shdr>(header.e_shoff, header.e_shnum, "section table");
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_type != SHT_NOBITS) reader_.require(section.sh_offset, section.sh_size, "section");
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  template <class Entry>
  std::vector<Entry> entries(const Elf64_Shdr& section) {
    return reader_.table<Entry>(section.sh_offset, section.sh_size / sizeof(Entry), "symbol table");
  }

  /// The names that the entries of a section refer to.
  std::string strings_of(const Elf64_Shdr& section) {
    if (section.sh_link >= sections_.size())
      refuse(file_, "damaged: its symbol table refers to a missing string section");
    const Elf64_Shdr& strings = sections_[section.sh_link];
    return reader_.bytes(strings.sh_offset, strings.sh_size, "symbol names");
  }

  std::string name_at(const std::string& strings, uint64_t offset) const {
    const size_t end = strings.find('\0', offset);
    if (end == std::string::npos) refuse(file_, "damaged: a symbol's name is outside the string section");
    return strings.substr(offset, end - offset);
  }

 private:
  std::filesystem::path file_;
  Reader reader_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

FileStamp check_library_file(const std::filesystem::path& file) {
  struct stat info {};
  if (lstat(file.c_str(), &info) != 0) refuse(file, std::string("cannot be accessed: ") + std::strerror(errno));
  if (S_ISLNK(info.st_mode)) refuse(file, "symbolic link; replace it with a copy of the library");
  if (!S_ISREG(info.st_mode)) refuse(file, "not a regular file");
  if ((info.st_mode & S_IWOTH) != 0) {
    refuse(file, "writable by everyone, so anyone could have replaced its code; check the file, then run chmod o-w " +
                     file.string());
  }
  return {absolute_path(file), info.st_size, int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

std::vector<std::string> exported_symbols(const std::filesystem::path& file) {
  Library library(file);
  std::vector<std::string> names;
  for (const Elf64_Shdr& section : library.sections()) {
    if (section.sh_type != SHT_DYNSYM) continue;
    const std::string text = library.strings_of(section);
    for (const Elf64_Sym& symbol : library.entries<Elf64_Sym>(section)) {
      const bool exported = symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
                            ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT;
      if (exported) names.push_back(library.name_at(text, symbol.st_name));
    }
  }
  return names;
}

std::vector<std::string> run_path(const std::filesystem::path& file) {
  Library library(file);
  std::vector<std::string> folders;
  for (const Elf64_Shdr& section : library.sections()) {
    if (section.sh_type != SHT_DYNAMIC) continue;
    const std::string text = library.strings_of(section);
    for (const Elf64_Dyn& entry : library.entries<Elf64_Dyn>(section))
      if (entry.d_tag == DT_RUNPATH) folders = split_search_path(library.name_at(text, entry.d_un.d_val));
  }
  const std::string origin = "$ORIGIN";
  for (std::string& folder : folders)
    if (folder.starts_with(origin)) folder = normal_path(file.parent_path().string() + folder.substr(origin.size()));
  return folders;
}

std::vector<std::string> entry_symbols(const std::filesystem::path& file) {
  std::vector<std::string> entries = exported_symbols(file);
  std::erase_if(entries, [](const std::string& name) { return !name.starts_with(entry_prefix); });
  if (entries.empty())
    refuse(file,
           "a library without a plugin's entry; end its source with WMTP_PIPELINE(...), WMTP_ADAPTER(...) or "
           "WMTP_AUXILIARY_LOSS(...), and build it with wmtp_add_plugin");
  return entries;
}

void check_fingerprint(const std::filesystem::path& file, const std::vector<std::string>& entries,
                       const std::string& wanted) {
  if (std::find(entries.begin(), entries.end(), wanted) != entries.end()) return;
  refuse(file, "built for " + build_fingerprint_text(entries.front()) + "; this host is " +
                   build_fingerprint_text(wanted) + "; build the plugin again with this host's sdk");
}

std::string build_fingerprint_text(const std::string& entry_symbol) {
  constexpr size_t longest_symbol = 256;  // std::regex recurses for each character
  if (entry_symbol.size() > longest_symbol) return truncate_text(entry_symbol, longest_symbol);
  static const std::regex form(
      "wmtp_plugin__sdk_(\\d+)_(\\d+)(?:__headers_([0-9a-f]+))?__torch_(\\d+)_(\\d+)_(\\d+)__([a-z]+)_(\\d+)__abi_(\\d+"
      ")");
  std::smatch part;
  if (!std::regex_match(entry_symbol, part, form)) return entry_symbol;
  const std::string headers = part[3].matched ? part.str(3) : "of an earlier version";
  return "sdk " + part.str(1) + "." + part.str(2) + ", headers " + headers + ", torch " + part.str(4) + "." +
         part.str(5) + "." + part.str(6) + ", " + part.str(7) + " " + part.str(8) + ", C++ ABI " + part.str(9);
}

}  // namespace wmtp
