// Machine code for AVX2 and AVX-512. Each instruction of a program becomes the operations that
// element_math.h says, on whole vectors: only operations whose results IEEE 754 defines, so nothing
// can differ from the kernels. Elementary functions and integers are not translated.
#include <xbyak/xbyak.h>

#include <bit>
#include <cstddef>
#include <map>
#include <memory>

#include "gpu/machine_code/compiler.h"

namespace es::gpu {
namespace {

using Xbyak::Reg64;
using Xbyak::Xmm;

// Predicates of vcmpps.
enum Predicate : std::uint8_t {
  kEqualTo = 0x00,
  kUnordered = 0x03,
  kNotEqualTo = 0x04,
  kLessThan = 0x11,
  kAtMost = 0x12
};

constexpr std::size_t kPage = 4096;

// The operations in the order of ES_ELEMENT_OPS: arithmetic, and behind the elementary functions
// comparisons, logic and choices.
constexpr bool is_translated(ElementOp op) {
  return op <= ElementOp::kRound || (op >= ElementOp::kEqual && op <= ElementOp::kSelect);
}

// The registers of a class: first those of the program, then these.
struct Registers {
  int program;         // registers that a program may have
  int operand[3];      // operands that are read from memory
  int test;            // AVX2: the last comparison
  int first_constant;  // from here to 31: constants that stay in a register
};
constexpr Registers kAvx2Registers = {
    .program = 11, .operand = {11, 12, 13}, .test = 14, .first_constant = 32};
constexpr Registers kAvx512Registers = {
    .program = 16, .operand = {16, 17, 18}, .test = -1, .first_constant = 21};

class TileCompiler : public Xbyak::CodeGenerator {
 public:
  TileCompiler(const ElementCode& code, CpuClass cpu_class)
      : CodeGenerator(2 * kPage, Xbyak::DontSetProtectRWE),
        code_(code),
        wide_(cpu_class == CpuClass::kAvx512),
        registers_(wide_ ? kAvx512Registers : kAvx2Registers) {}

  static bool can(const ElementCode& code, const Registers& registers) {
    for (std::int32_t i = 0; i < code.instructions; ++i) {
      const Instruction& step = code.instruction[static_cast<std::size_t>(i)];
      if (!is_translated(step.op) || step.to >= registers.program) return false;
    }
    return true;
  }

  TileCode compile() {
    Xbyak::Label loop, end;
    keep_constants();
    xor_(offset_, offset_);
    test(vectors_, vectors_);
    jz(end, T_NEAR);
    L(loop);
    for (std::int32_t i = 0; i < code_.instructions; ++i)
      emit(code_.instruction[static_cast<std::size_t>(i)]);
    for (std::int32_t k = 0; k < code_.outputs; ++k) {
      mov(address_, ptr[out_ + 8 * k]);
      vmovups(ptr[address_ + offset_], vec(code_.result[static_cast<std::size_t>(k)]));
    }
    add(offset_, wide_ ? 64 : 32);
    dec(vectors_);
    jnz(loop, T_NEAR);
    L(end);
    vzeroupper();
    ret();
    emit_words();
    return setProtectModeRE(false) ? getCode<TileCode>() : nullptr;
  }

 private:
  Xmm vec(int index) const { return wide_ ? Xmm(Xbyak::Zmm(index)) : Xmm(Xbyak::Ymm(index)); }
  Xmm scratch(int which) const { return vec(registers_.operand[which]); }

  void keep_constants() {
    for (std::int32_t k = 0; k < code_.constants; ++k)
      if (has_register(k))
        vbroadcastss(vec(registers_.first_constant + k), ptr[constants_ + 4 * k]);
  }
  bool has_register(std::int32_t constant) const {
    return registers_.first_constant + constant < 32;
  }

  // The register that has operand `name`; one that is in memory is read to scratch(which).
  Xmm operand(std::uint8_t name, int which) {
    if (name < kFirstInput) return vec(name);
    const Xmm to = scratch(which);
    if (name < kFirstConstant) {
      mov(address_, ptr[in_ + 8 * (name - kFirstInput)]);
      vmovups(to, ptr[address_ + offset_]);
      return to;
    }
    const std::int32_t constant = name - kFirstConstant;
    if (has_register(constant)) return vec(registers_.first_constant + constant);
    vbroadcastss(to, ptr[constants_ + 4 * constant]);
    return to;
  }

  // Reads a word that the machine code itself has.
  Xmm word(std::uint32_t bits, int which) {
    vbroadcastss(scratch(which), ptr[rip + words_[bits]]);
    return scratch(which);
  }
  Xmm number(float value, int which) { return word(std::bit_cast<std::uint32_t>(value), which); }
  void emit_words() {
    align(4);
    for (auto& [bits, label] : words_) {
      L(label);
      dd(bits);
    }
  }

  // The test is used by the next choose() or keep_if().
  void compare(Predicate predicate, const Xmm& x, const Xmm& y) {
    if (wide_)
      vcmpps(k1, x, y, predicate);
    else
      vcmpps(vec(registers_.test), x, y, predicate);
  }
  // test ? x : y
  void choose(const Xmm& to, const Xmm& x, const Xmm& y) {
    if (wide_)
      vblendmps(to | k1, y, x);
    else
      vblendvps(to, y, x, vec(registers_.test));
  }
  // test ? x : +0
  void keep_if(const Xmm& to, const Xmm& x) {
    if (wide_)
      vmovaps(to | k1 | T_z, x);
    else
      vandps(to, vec(registers_.test), x);
  }
  void truth(const Xmm& to, Predicate predicate, const Xmm& x, const Xmm& y) {
    compare(predicate, x, y);
    keep_if(to, number(1.0F, 2));
  }
  void round(const Xmm& to, const Xmm& x, std::uint8_t mode) {
    if (wide_)
      vrndscaleps(to, x, mode);
    else
      vroundps(to, x, mode);
  }

  void emit(const Instruction& step) {
    const int operands = operands_of(step.op);
    const Xmm to = vec(step.to), a = operand(step.a, 0);
    const Xmm b = operands > 1 ? operand(step.b, 1) : a;
    if (step.op >= ElementOp::kEqual)
      emit_decision(step, to, a, b);
    else
      emit_arithmetic(step, to, a, b);
  }

  void emit_arithmetic(const Instruction& step, const Xmm& to, const Xmm& a, const Xmm& b) {
    switch (step.op) {
      case ElementOp::kAdd:
        return vaddps(to, a, b);
      case ElementOp::kSub:
        return vsubps(to, a, b);
      case ElementOp::kMul:
        return vmulps(to, a, b);
      case ElementOp::kDiv:
        return vdivps(to, a, b);
      case ElementOp::kFma:
        vmovaps(scratch(2), operand(step.c, 2));
        vfmadd231ps(scratch(2), a, b);
        return vmovaps(to, scratch(2));
      case ElementOp::kMax:
      case ElementOp::kMin:
        if (step.op == ElementOp::kMax)
          vmaxps(scratch(2), a, b);
        else
          vminps(scratch(2), a, b);
        compare(kUnordered, a, a);
        return choose(to, a, scratch(2));
      case ElementOp::kNegate:
        return vxorps(to, a, word(0x80000000, 2));
      case ElementOp::kAbs:
        return vandps(to, a, word(0x7fffffff, 2));
      case ElementOp::kSign:
        compare(kLessThan, number(0.0F, 2), a);
        choose(scratch(1), number(1.0F, 2), a);
        compare(kLessThan, a, number(0.0F, 2));
        return choose(to, number(-1.0F, 2), scratch(1));
      case ElementOp::kSqrt:
        return vsqrtps(to, a);
      case ElementOp::kFloor:
        return round(to, a, 0x09);
      case ElementOp::kRound:
        return round(to, a, 0x08);
      default:
        return vmovaps(to, a);  // kCopy
    }
  }

  void emit_decision(const Instruction& step, const Xmm& to, const Xmm& a, const Xmm& b) {
    switch (step.op) {
      case ElementOp::kEqual:
        return truth(to, kEqualTo, a, b);
      case ElementOp::kNotEqual:
        return truth(to, kNotEqualTo, a, b);
      case ElementOp::kLess:
        return truth(to, kLessThan, a, b);
      case ElementOp::kLessEqual:
        return truth(to, kAtMost, a, b);
      case ElementOp::kNot:
        return truth(to, kEqualTo, a, number(0.0F, 2));
      case ElementOp::kSelect:
        compare(kNotEqualTo, a, number(0.0F, 2));
        return choose(to, b, operand(step.c, 2));
      default:
        break;  // kAnd, kOr
    }
    compare(kNotEqualTo, b, number(0.0F, 2));
    keep_if(scratch(1), number(1.0F, 2));
    compare(kNotEqualTo, a, number(0.0F, 2));
    if (step.op == ElementOp::kAnd) return keep_if(to, scratch(1));
    choose(to, number(1.0F, 2), scratch(1));
  }

  const ElementCode& code_;
  const bool wide_;
  const Registers registers_;
  std::map<std::uint32_t, Xbyak::Label> words_;
  const Reg64 in_ = rdi, out_ = rsi, constants_ = rdx, vectors_ = rcx;  // the arguments
  const Reg64 offset_ = rax, address_ = r8;
};

}  // namespace

TileCode compile_tile(const ElementCode& code, CpuClass cpu_class) {
  if (cpu_class == CpuClass::kScalar) return nullptr;
  const bool wide = cpu_class == CpuClass::kAvx512;
  if (!TileCompiler::can(code, wide ? kAvx512Registers : kAvx2Registers)) return nullptr;
  try {
    auto compiler = std::make_unique<TileCompiler>(code, cpu_class);
    const TileCode compiled = compiler->compile();
    // The code lives as long as its compiler does.
    if (compiled != nullptr) static_cast<void>(compiler.release());
    return compiled;
  } catch (const Xbyak::Error&) {  // no memory
    return nullptr;
  }
}

}  // namespace es::gpu
