#pragma once

#include <mpfr.h>

#include <utility>

namespace driftbound::num {

/// An mpfr_t that owns its digits. Every operation is a raw mpfr_* call with an explicit rounding:
///   MpfrValue y(bits);  mpfr_exp(y.get(), x.get(), MPFR_RNDD);
/// A new value is NaN. A value that was moved from may only be assigned to or destroyed.
class MpfrValue {
public:
  explicit MpfrValue(mpfr_prec_t precision_bits) {
    release_caches_when_this_thread_ends();
    mpfr_init2(value_, precision_bits);
  }
  /// x rounded to precision_bits (exact from 53 bits on).
  MpfrValue(double x, mpfr_prec_t precision_bits, mpfr_rnd_t rounding = MPFR_RNDN) : MpfrValue(precision_bits) {
    mpfr_set_d(value_, x, rounding);
  }

  MpfrValue(const MpfrValue& other) : MpfrValue(other.precision_bits()) { mpfr_set(value_, other.value_, MPFR_RNDN); }
  MpfrValue(MpfrValue&& other) noexcept { *value_ = std::exchange(*other.value_, mpfr_shell()); }
  /// Takes the other's precision as well as its value.
  MpfrValue& operator=(MpfrValue other) noexcept {
    swap(other);
    return *this;
  }
  ~MpfrValue() {
    if (value_->_mpfr_d != nullptr) mpfr_clear(value_);
  }

  void swap(MpfrValue& other) noexcept { std::swap(*value_, *other.value_); }

  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }
  mpfr_prec_t precision_bits() const { return mpfr_get_prec(value_); }

private:
  static __mpfr_struct mpfr_shell() { return {0, 0, 0, nullptr}; }

  static void release_caches_when_this_thread_ends() {
    struct Caches {
      ~Caches() { mpfr_free_cache(); }
    };
    thread_local const Caches caches;
    static_cast<void>(caches);
  }

  mpfr_t value_;
};

inline void swap(MpfrValue& a, MpfrValue& b) noexcept {
  a.swap(b);
}

}  // namespace driftbound::num
