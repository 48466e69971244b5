#include "analysis/sign_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "driftbound/model/npy_header.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

std::filesystem::path with_ending(const std::filesystem::path& file, const char* ending) {
  std::filesystem::path result = file;
  result += ending;
  return result;
}

std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// "of another model, with other points, --iso"
std::string difference_of(const std::vector<std::string>& names) {
  std::string of, with;
  for (const std::string& name : names) {
    const bool is_of = name == "model" || name == "version";
    std::string& text = is_of ? of : with;
    text += (text.empty() ? (is_of ? "of another " : "with other ") : (is_of ? " and " : ", ")) + name;
  }
  return of + (of.empty() || with.empty() ? "" : ", ") + with;
}

}  // namespace

SignFile::SignFile(std::filesystem::path file, std::int64_t points, Identity identity, bool resume)
    : file_(std::move(file)),
      part_(with_ending(file_, ".part")),
      state_(with_ending(file_, ".state")),
      points_(points),
      make_identity_(std::move(identity)) {
  if (std::filesystem::exists(file_) && !std::filesystem::is_regular_file(file_))
    fail(file_, "it exists and is not a regular file");
  refuse_left_over(resume);
  open_part();
  try {
    has_state_ = std::filesystem::exists(state_);
    refuse_left_over(resume);  // what a run has left that ended since
    if (has_state_) {
      resume_from_state();
    } else {
      if (::ftruncate(descriptor_, 0) != 0) fail(part_, std::strerror(errno));
      const std::string header = npy_header("|i1", {points_});
      write(std::as_bytes(std::span(header.data(), header.size())));
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SignFile::~SignFile() {
  if (descriptor_ < 0) return;
  if (!has_state_) ::unlink(part_.c_str());
  ::close(descriptor_);
}

void SignFile::refuse_left_over(bool resume) const {
  if (resume || !std::filesystem::exists(state_)) return;
  throw InvalidArgument(fmt::format(
      "{}: an interrupted run has left it; add --resume to continue that run, or remove it", state_.string()));
}

/// One run at a time: the part is locked until it has its last name, or is gone.
void SignFile::open_part() {
  descriptor_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(part_, std::strerror(errno));
  const bool is_locked = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  const bool is_busy = !is_locked && errno == EWOULDBLOCK;  // else there are no locks on this file system
  struct stat opened {};
  struct stat named {};
  const bool is_named = ::fstat(descriptor_, &opened) == 0 && ::stat(part_.c_str(), &named) == 0 &&
                        opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  if (!is_busy && is_named) return;
  ::close(descriptor_);
  throw InvalidArgument(fmt::format(
      "{}: another run writes it; wait until that has ended, or give this one a file of its own", part_.string()));
}

void SignFile::resume_from_state() {
  const SignState state = parse_sign_state(text_of_file(state_), state_.string());
  std::vector<std::string> different;
  for (const auto& [name, value] : identity())
    if (const auto found = state.identity.find(name); found == state.identity.end() || found->second != value)
      different.push_back(name);
  if (state.points != points_ || state.progress.counts.points > points_) different = {"points"};
  if (!different.empty())
    throw InvalidArgument(fmt::format("{}: is of a run {}; repeat that run's options, or remove the file",
                                      state_.string(), difference_of(different)));
  start_ = state.progress;
  const auto whole =
      static_cast<::off_t>(npy_header("|i1", {points_}).size()) + static_cast<::off_t>(start_.counts.points);
  if (::lseek(descriptor_, 0, SEEK_END) < whole)
    throw ParseError(fmt::format("{}: holds fewer signs than {} says; remove both", part_.string(), state_.string()));
  if (::ftruncate(descriptor_, whole) != 0 || ::lseek(descriptor_, whole, SEEK_SET) < 0)
    fail(part_, std::strerror(errno));
}

const std::map<std::string, std::string>& SignFile::identity() {
  if (identity_.empty()) identity_ = make_identity_();
  return identity_;
}

void SignFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(part_, std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void SignFile::append(std::span<const std::int8_t> signs) {
  write(std::as_bytes(signs));
}

void SignFile::checkpoint(const SignProgress& progress) {
  if (::fsync(descriptor_) != 0) fail(part_, std::strerror(errno));
  const std::filesystem::path next = with_ending(state_, ".next");
  std::ofstream out(next, std::ios::binary);
  out << to_json(SignState{points_, identity(), progress});
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(next, state_, error);
  if (!out || error) {
    std::filesystem::remove(next, error);
    fail(state_, "disk full, or no permission");
  }
  has_state_ = true;
}

void SignFile::finish() {
  struct stat replaced = {};
  if (::stat(file_.c_str(), &replaced) == 0) static_cast<void>(::fchmod(descriptor_, replaced.st_mode & 0777));
  const bool is_done = ::fsync(descriptor_) == 0 && ::rename(part_.c_str(), file_.c_str()) == 0;
  const int error = errno;
  if (is_done && has_state_) ::unlink(state_.c_str());
  ::close(std::exchange(descriptor_, -1));
  if (!is_done) fail(file_, std::strerror(error));
}

void SignFile::discard() {
  has_state_ = false;
  ::unlink(state_.c_str());
}

void SignFile::fail(const std::filesystem::path& file, const std::string& why) const {
  throw FileError(fmt::format("cannot write {}: {}", file.string(), why));
}

}  // namespace driftbound::analysis
