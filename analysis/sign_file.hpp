#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "driftbound/implicit/sign_field.hpp"

namespace driftbound::analysis {

/// How far a certification has come.
struct SignProgress {
  SignStatistics counts;
  double seconds = 0.0;  ///< of certifying, not of reading or making points
};

/// The state of an interrupted certification.
struct SignState {
  std::int64_t points = 0;
  std::map<std::string, std::string> identity;
  SignProgress progress;
};

std::string to_json(const SignState& state);
/// Throws:    ParseError
SignState parse_sign_state(const std::string& text, const std::string& where);

/// An .npy file of int8, one sign a point in order: -1, 0 (proven zero), 1, 2 (undecided). Until it is whole, signs go
/// to FILE.part, and checkpoints to FILE.state (JSON), from which the same run can be continued.
class SignFile {
public:
  /// What two runs must share so that one can continue the other, by name. Asked for once, when first needed.
  using Identity = std::function<std::map<std::string, std::string>()>;

  /// With `resume` the file continues where its state says, if there is one; without, a state is refused.
  /// Throws:    FileError; InvalidArgument (a state without `resume`, or of another run: says what differs; a file that
  ///            another run is writing), ParseError
  SignFile(std::filesystem::path file, std::int64_t points, Identity identity, bool resume);
  /// Without a checkpoint, what is not finished is removed.
  ~SignFile();
  SignFile(const SignFile&) = delete;
  SignFile& operator=(const SignFile&) = delete;

  /// Of the run that is continued; zeros at the start.
  const SignProgress& start() const { return start_; }
  const std::filesystem::path& path() const { return file_; }

  /// The methods throw FileError.
  void append(std::span<const std::int8_t> signs);
  /// Makes sure that what was appended survives the program.
  void checkpoint(const SignProgress& progress);
  /// Gives the file its name; the state goes.
  void finish();
  /// Removes the part and the state.
  void discard();

private:
  const std::map<std::string, std::string>& identity();
  void refuse_left_over(bool resume) const;
  void open_part();
  void resume_from_state();
  void write(std::span<const std::byte> bytes);
  [[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) const;

  std::filesystem::path file_, part_, state_;
  std::int64_t points_;
  Identity make_identity_;
  std::map<std::string, std::string> identity_;
  SignProgress start_;
  int descriptor_ = -1;
  bool has_state_ = false;
};

}  // namespace driftbound::analysis
