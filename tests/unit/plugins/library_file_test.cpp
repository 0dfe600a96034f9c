#include "plugins/library_file.hpp"

#include <elf.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <random>

#include "base/error.hpp"
#include "base/installation.hpp"
#include "base/text.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace wmtp {
namespace {

using test::TemporaryFolder;
using testing::Contains;
using testing::HasSubstr;

/// A valid library of this machine.
std::string good_library() { return test::bytes_of(library_folder() / "libwmtp_core.so"); }

std::string refusal(const std::filesystem::path& file) {
  try {
    check_library_file(file);
    entry_symbols(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::plugin);
    EXPECT_THAT(error.what(), HasSubstr(file.string()));
    return error.what();
  }
  return "";
}

TEST(LibraryFile, ListsTheExportsOfALibrary) {
  const auto names = exported_symbols(library_folder() / "libwmtp_core.so");
  EXPECT_THAT(names, Contains(HasSubstr("probe_plugin")));
  for (const std::string& name : names) EXPECT_NE(name, "malloc") << "a symbol that is only used was listed";
}

TEST(LibraryFile, ListsTheFoldersOfARunPath) {
  EXPECT_THAT(run_path(library_folder() / "libwmtp_core.so"), testing::ElementsAre(library_folder(), library_folder()));
}

TEST(LibraryFile, RefusesTextAndShowsItsBeginning) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.write("a.so", "#include <wmtp/plugin.hpp>\n")), HasSubstr("\"#include <wmtp/p\""));
  EXPECT_THAT(refusal(folder.write("b.so", "")), HasSubstr("empty"));
  EXPECT_THAT(refusal(folder.write("c.so", "\177ELF")), HasSubstr("truncated"));
}

TEST(LibraryFile, RefusesALibraryWithoutAnEntry) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(folder.write("a.so", good_library())), HasSubstr("without a plugin's entry"));
}

TEST(LibraryFile, RefusesALibraryTruncatedAnywhere) {
  const TemporaryFolder folder;
  const std::string whole = good_library();
  for (size_t part = 1; part < 16; ++part) {
    const std::string text = refusal(folder.write("cut.so", whole.substr(0, whole.size() * part / 16)));
    EXPECT_THAT(text, HasSubstr("truncated")) << part << "/16 of the file";
  }
  EXPECT_THAT(refusal(folder.write("cut.so", whole.substr(0, whole.size() - 1))), HasSubstr("truncated"));
}

TEST(LibraryFile, RefusesLibrariesForOtherMachinesWithBothValues) {
  const TemporaryFolder folder;
  const auto changed = [&](size_t offset, char value) {
    std::string bytes = good_library();
    bytes[offset] = value;
    return refusal(folder.write("foreign.so", bytes));
  };
  const char other = good_library()[offsetof(Elf64_Ehdr, e_machine)] == EM_ARM ? EM_386 : EM_ARM;
  EXPECT_THAT(changed(offsetof(Elf64_Ehdr, e_machine), other), HasSubstr("; this host is "));
  EXPECT_THAT(changed(EI_CLASS, ELFCLASS32), HasSubstr("32-bit"));
  EXPECT_THAT(changed(offsetof(Elf64_Ehdr, e_type), ET_EXEC), HasSubstr("not a shared library"));
}

TEST(LibraryFile, SurvivesAnyDamage) {
  const TemporaryFolder folder;
  const std::string whole = good_library();
  std::mt19937 random(7);
  int refused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::string bytes = whole;
    // Half of the changes hit the headers, where they hurt.
    for (int i = 0; i < 3; ++i) bytes[random() % (trial % 2 == 0 ? 1024 : bytes.size())] = char(random());
    for (int i = 0; trial % 3 == 0 && i < 3; ++i) bytes[bytes.size() - 1 - random() % 2048] = char(random());
    if (!refusal(folder.write("damaged.so", bytes)).empty()) ++refused;
  }
  EXPECT_EQ(refused, 300) << "none of them has a plugin's entry";
}

TEST(LibraryFile, RefusesLinksFoldersAndFilesWritableByEveryone) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.so", good_library());
  std::filesystem::create_symlink(file, folder.path() / "link.so");
  std::filesystem::create_directory(folder.path() / "folder.so");
  EXPECT_THAT(refusal(folder.path() / "link.so"), HasSubstr("symbolic link"));
  EXPECT_THAT(refusal(folder.path() / "folder.so"), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(folder.path() / "absent.so"), HasSubstr("cannot be accessed"));
  ASSERT_EQ(mkfifo((folder.path() / "pipe.so").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder.path() / "pipe.so"), HasSubstr("not a regular file"));
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  EXPECT_THAT(refusal(file), HasSubstr("writable by everyone"));
}

TEST(Fingerprint, MismatchIsReportedWithBothFingerprints) {
  const std::string wanted = "wmtp_plugin__sdk_0_1__headers_12e4ab__torch_2_11_0__gcc_12__abi_1";
  const std::string older = "wmtp_plugin__sdk_0_1__torch_2_10_0__clang_14__abi_0";
  EXPECT_EQ(build_fingerprint_text(wanted), "sdk 0.1, headers 12e4ab, torch 2.11.0, gcc 12, C++ ABI 1");
  EXPECT_EQ(build_fingerprint_text("something"), "something");
  const std::string endless = "wmtp_plugin__sdk_" + std::string(1'000'000, '1');
  EXPECT_EQ(build_fingerprint_text(endless), truncate_text(endless, 256));
  EXPECT_NO_THROW(check_fingerprint("a.so", {older, wanted}, wanted));
  EXPECT_EQ(test::refusal(ExitStatus::plugin, [&] { check_fingerprint("a.so", {older}, wanted); }),
            "a.so: built for sdk 0.1, headers of an earlier version, torch 2.10.0, clang 14, C++ ABI 0; this host "
            "is sdk 0.1, headers 12e4ab, torch 2.11.0, gcc 12, C++ ABI 1; build the plugin again with this host's "
            "sdk");
}

}  // namespace
}  // namespace wmtp
