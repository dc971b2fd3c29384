#include "engine/options_table.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>

#include <strata/bytes.h>
#include <strata/error.h>

namespace strata::detail {
namespace {

constexpr std::uint32_t chunk_min = 2048;
constexpr std::uint32_t chunk_max = 1U << 20;
constexpr double wait_min_s = 0.01;
constexpr double wait_max_s = 1e6;
constexpr std::string_view automatic = "auto";

template <typename Integer>
std::optional<Integer> read_integer(std::string_view text, Integer least, Integer most) {
  Integer value{};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < least || value > most) return std::nullopt;
  return value;
}

// A whole number from `least` to `most`, or "auto" for what the engine chooses.
Verdict set_count(std::optional<std::uint32_t>& field, std::string_view text, std::uint32_t least, std::uint32_t most) {
  if (text == automatic) {
    field.reset();
    return Verdict::legal;
  }
  const auto value = read_integer<std::uint32_t>(text, least, most);
  if (!value) return Verdict::illegal;
  field = *value;
  return Verdict::legal;
}

std::string print_count(const std::optional<std::uint32_t>& field) {
  return field ? std::to_string(*field) : std::string(automatic);
}

struct WaitUnit {
  std::string_view name;
  double seconds;
};
constexpr std::array<WaitUnit, 5> wait_units = {{{"", 1}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};

Verdict set_wait(double& field, std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc()) return Verdict::illegal;
  const std::string_view unit_name(read.ptr, static_cast<std::size_t>(end - read.ptr));
  for (const WaitUnit& unit : wait_units) {
    const double seconds = number * unit.seconds;
    if (unit.name != unit_name || !(seconds >= wait_min_s && seconds <= wait_max_s)) continue;
    field = seconds;
    return Verdict::legal;
  }
  return Verdict::illegal;
}

std::string print_wait(double seconds) { return fmt::format("{}s", seconds); }

template <typename Enum>
struct Choice {
  std::string_view name;
  Enum value;
};

template <typename Enum, std::size_t count>
Verdict set_choice(Enum& field, std::string_view text, const std::array<Choice<Enum>, count>& choices) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.name != text) continue;
    field = choice.value;
    return Verdict::legal;
  }
  return Verdict::illegal;
}

template <typename Enum, std::size_t count>
std::string print_choice(Enum field, const std::array<Choice<Enum>, count>& choices) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.value == field) return std::string(choice.name);
  }
  return fmt::format("value {}", static_cast<int>(field));
}

constexpr std::array<Choice<Dtype>, 3> dtypes = {{{"f32", Dtype::f32}, {"bf16", Dtype::bf16}, {"f16", Dtype::f16}}};
constexpr std::array<Choice<ReducePolicy>, 2> policies = {
    {{"micro_batch", ReducePolicy::micro_batch}, {"step", ReducePolicy::step}}};
constexpr std::array<Choice<CommunicatorKind>, 2> communicators = {
    {{"auto", CommunicatorKind::automatic}, {"shm", CommunicatorKind::shm}}};
constexpr std::array<Choice<Progress>, 3> progresses = {
    {{"auto", Progress::automatic}, {"on", Progress::on}, {"off", Progress::off}}};
constexpr std::array<Choice<bool>, 4> switches = {{{"on", true}, {"off", false}, {"true", true}, {"false", false}}};

Verdict set_stage(Options& options, std::string_view text) {
  const auto value = read_integer<int>(text, 0, 3);
  if (!value) return Verdict::illegal;
  options.stage = *value;
  return Verdict::legal;
}

Verdict set_device(Options& options, std::string_view text) {
  if (text == "cpu") {
    options.device = Device{};
    return Verdict::legal;
  }
  const bool indexed = text.starts_with("cuda:") && read_integer<int>(text.substr(5), 0, 1023);
  return text == "cuda" || indexed ? Verdict::not_built : Verdict::illegal;
}

std::string print_device(const Options& options) {
  const bool plain = options.device == Device{};
  return plain || options.device.kind != DeviceKind::cpu ? to_string(options.device)
                                                         : fmt::format("cpu:{}", options.device.index);
}

Verdict set_device_memory(Options& options, std::string_view text) {
  if (text == automatic) {
    options.device_memory_bytes.reset();
    return Verdict::legal;
  }
  try {
    options.device_memory_bytes = parse_bytes(text);
  } catch (const Error&) {
    return Verdict::illegal;
  }
  return Verdict::legal;
}

std::string print_device_memory(const Options& options) {
  return options.device_memory_bytes ? std::to_string(*options.device_memory_bytes) : std::string(automatic);
}

Verdict set_leases(Options& options, std::string_view text) {
  const auto value = read_integer<std::uint32_t>(text, 1, 1024);
  if (!value) return Verdict::illegal;
  options.leases = *value;
  return Verdict::legal;
}

Verdict set_chunk(Options& options, std::string_view text) {
  std::optional<std::uint32_t> value;
  const Verdict verdict = set_count(value, text, chunk_min, chunk_max);
  if (verdict != Verdict::legal || (value && !std::has_single_bit(*value))) return Verdict::illegal;
  options.chunk = value;
  return Verdict::legal;
}

// Where the file is does not live in Options: whoever reads the file has taken the path out of the sources before.
Verdict set_config(Options&, std::string_view text) { return text.empty() ? Verdict::illegal : Verdict::legal; }

using O = Options;
using T = std::string_view;

constexpr std::array<OptionDescriptor, 18> table = {{
    {"stage", "N", "what is sharded: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too",
     "a whole number from 0 to 3", JsonForm::number, Agreement::world, set_stage,
     [](const O& o) { return std::to_string(o.stage); }},
    {"device", "DEVICE", "where leases live and the model computes",
     "cpu; cuda and cuda:N need a build with CUDA, which this version does not have", JsonForm::text, Agreement::world,
     set_device, print_device},
    {"dtype", "DTYPE", "published parameters: what the model computes with", "f32, bf16 or f16", JsonForm::text,
     Agreement::world, [](O& o, T v) { return set_choice(o.dtype, v, dtypes); },
     [](const O& o) { return print_choice(o.dtype, dtypes); }},
    {"grad-dtype", "DTYPE", "gradients as the model hands them in", "f32, bf16 or f16", JsonForm::text,
     Agreement::world, [](O& o, T v) { return set_choice(o.grad_dtype, v, dtypes); },
     [](const O& o) { return print_choice(o.grad_dtype, dtypes); }},
    {"reduce-dtype", "DTYPE", "what each rank's term is rounded to before the f32 sum over ranks", "f32, bf16 or f16",
     JsonForm::text, Agreement::world, [](O& o, T v) { return set_choice(o.reduce_dtype, v, dtypes); },
     [](const O& o) { return print_choice(o.reduce_dtype, dtypes); }},
    {"device-memory", "SIZE", "hard budget of each rank for leases, shards and state; auto: 0.9 of what is free",
     "bytes as 4096, 512MiB, 1.5GiB or 8G, at most 2^63; or auto", JsonForm::number_or_text, Agreement::rank,
     set_device_memory, print_device_memory},
    {"prefetch", "N", "units gathered ahead of the caller; auto: what the budget allows, at most 2",
     "a whole number from 0 to 1024; or auto", JsonForm::number_or_auto, Agreement::world,
     [](O& o, T v) { return set_count(o.prefetch, v, 0, 1024); }, [](const O& o) { return print_count(o.prefetch); }},
    {"leases", "N", "units the caller may hold at once", "a whole number from 1 to 1024", JsonForm::number,
     Agreement::world, set_leases, [](const O& o) { return std::to_string(o.leases); }},
    {"chunk", "N", "elements of a shard that are updated in one go; auto: from the budget",
     "a power of two from 2048 to 1048576; or auto", JsonForm::number_or_auto, Agreement::world, set_chunk,
     [](const O& o) { return print_count(o.chunk); }},
    {"threads", "N", "threads of the update; auto: cores / ranks of this machine",
     "a whole number from 1 to 1024; or auto", JsonForm::number_or_auto, Agreement::rank,
     [](O& o, T v) { return set_count(o.threads, v, 1, 1024); }, [](const O& o) { return print_count(o.threads); }},
    {"reduce", "POLICY", "sum gradients over ranks at each commit (least memory), or once a step (least traffic)",
     "micro_batch or step", JsonForm::text, Agreement::world,
     [](O& o, T v) { return set_choice(o.reduce, v, policies); },
     [](const O& o) { return print_choice(o.reduce, policies); }},
    {"comm", "KIND", "how ranks talk; auto: shm", "auto or shm", JsonForm::text, Agreement::world,
     [](O& o, T v) { return set_choice(o.comm, v, communicators); },
     [](const O& o) { return print_choice(o.comm, communicators); }},
    {"timeout", "TIME", "silence of a rank after which it counts as lost",
     "seconds, or a time as 500ms, 30s, 10min or 1h; from 10ms to 1000000s", JsonForm::number_or_text, Agreement::rank,
     [](O& o, T v) { return set_wait(o.timeout_s, v); }, [](const O& o) { return print_wait(o.timeout_s); }},
    {"call-timeout", "TIME", "how long to wait for a live rank that does not make the matching call",
     "seconds, or a time as 500ms, 30s, 10min or 1h; from 10ms to 1000000s", JsonForm::number_or_text, Agreement::rank,
     [](O& o, T v) { return set_wait(o.call_timeout_s, v); }, [](const O& o) { return print_wait(o.call_timeout_s); }},
    {"progress", "WHEN", "the progress line; auto: on a terminal renewed in place, else at most one line a second",
     "auto, on or off", JsonForm::text, Agreement::rank,
     [](O& o, T v) { return set_choice(o.progress, v, progresses); },
     [](const O& o) { return print_choice(o.progress, progresses); }},
    {"plan", "", "print where every byte would be, and end", "on or off", JsonForm::boolean, Agreement::rank,
     [](O& o, T v) { return set_choice(o.plan_only, v, switches); },
     [](const O& o) { return print_choice(o.plan_only, switches); }},
    {config_name, "FILE", "a JSON object of these options, as {\"stage\": 2, \"device-memory\": \"512MiB\"}",
     "the path of a regular file of at most 1 MiB", JsonForm::flag_only, Agreement::rank, set_config,
     [](const O&) { return std::string("none"); }},
    {"help", "", "print this, and end", "on or off", JsonForm::boolean, Agreement::rank,
     [](O& o, T v) { return set_choice(o.help, v, switches); },
     [](const O& o) { return print_choice(o.help, switches); }},
}};

}  // namespace

std::span<const OptionDescriptor> option_table() { return table; }

const OptionDescriptor* find_option(std::string_view name) {
  for (const OptionDescriptor& option : table) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string flag_of(std::string_view name) { return fmt::format("{}{}", flag_prefix, name); }

}  // namespace strata::detail
