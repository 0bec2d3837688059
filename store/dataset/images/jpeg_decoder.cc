// libjpeg reports errors by a function that must not return; it jumps back to where decoding began.
// The functions in between have no objects with destructors, so the jump skips none.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>

// jpeglib.h needs the two headers above.
#include <jerror.h>
#include <jpeglib.h>

#include "store/dataset/images/raw_image.h"
#include "store/field_error.h"

namespace es::store {
namespace {

// Limit of passes. A progressive file may ask for any number of passes over the image; published
// files have about ten.
constexpr int kScansMax = 200;
constexpr long kCoefficientBytesMax = 1L << 30;

struct JpegState {
  jpeg_decompress_struct jpeg;  // first, because libjpeg passes pointers to it
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf start;
  char message[JMSG_LENGTH_MAX];
};

JpegState& decoder_of(j_common_ptr jpeg) {
  return *reinterpret_cast<JpegState*>(jpeg);
}

// Copies the text of libjpeg's message up to the place where numbers from the file would be
// inserted.
void copy_fixed_part(const jpeg_error_mgr& errors, char (&message)[JMSG_LENGTH_MAX]) {
  const bool known = errors.msg_code > 0 && errors.msg_code <= errors.last_jpeg_message;
  const char* const text = known ? errors.jpeg_message_table[errors.msg_code] : "damaged";
  std::size_t size = std::strcspn(text, "%");
  if (text[size] != '\0')
    while (size > 0 && std::strchr(" :(,=#0x", text[size - 1]) != nullptr) --size;
  std::snprintf(message, sizeof message, "%.*s", static_cast<int>(size), text);
}

[[noreturn]] void stop(j_common_ptr jpeg) {
  JpegState& decoder = decoder_of(jpeg);
  copy_fixed_part(*jpeg->err, decoder.message);
  std::longjmp(decoder.start, 1);
}

// libjpeg continues after damaged data with a warning. Here a warning is an error, except for those
// that leave the pixels right: bytes between two parts of the file, and marks of the program that
// wrote it.
void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  const int code = decoder_of(jpeg).errors.msg_code;
  if (code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR)
    stop(jpeg);
}

void on_progress(j_common_ptr jpeg) {
  JpegState& decoder = decoder_of(jpeg);
  if (decoder.jpeg.input_scan_number <= kScansMax) return;
  std::snprintf(decoder.message, sizeof decoder.message, "more than %d scans", kScansMax);
  std::longjmp(decoder.start, 1);
}

void prepare(JpegState& decoder) {
  decoder.message[0] = '\0';
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = stop;
  decoder.errors.emit_message = on_message;
  decoder.progress.progress_monitor = on_progress;
}

// Reads the header and chooses the output format. Returns false after an error, with a message in
// the decoder.
bool read_header(JpegState& decoder, std::string_view bytes) {
  if (setjmp(decoder.start) != 0) return false;
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  jpeg_create_decompress(&jpeg);
  jpeg.mem->max_memory_to_use = kCoefficientBytesMax;
  jpeg.progress = &decoder.progress;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  const bool four = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = four ? JCS_CMYK : JCS_RGB;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.do_fancy_upsampling = FALSE;
  jpeg.do_block_smoothing = FALSE;
  return true;
}

// Decodes into [height][width][channels of the output].
bool read_pixels(JpegState& decoder, std::uint8_t* pixels, std::size_t row_bytes) {
  if (setjmp(decoder.start) != 0) return false;
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

// Converts cyan, magenta, yellow and black to red, green and blue, rounded to nearest. Programs of
// Adobe write the complements.
void cmyk_to_rgb(bool complements, std::vector<std::uint8_t>& pixels) {
  const std::size_t count = pixels.size() / 4;
  for (std::size_t p = 0; p < count; ++p) {
    const std::uint32_t flip = complements ? 0 : 255;
    const std::uint32_t black = pixels[4 * p + 3] ^ flip;
    for (std::size_t c = 0; c < 3; ++c)
      pixels[3 * p + c] =
          static_cast<std::uint8_t>(((pixels[4 * p + c] ^ flip) * black + 127) / 255);
  }
  pixels.resize(3 * count);
}

struct Destroy {
  jpeg_decompress_struct& jpeg;
  ~Destroy() { jpeg_destroy_decompress(&jpeg); }
};

}  // namespace

Status decode_jpeg(std::string_view bytes, const std::string& file, RawImage& image) {
  const auto bad = [&](const JpegState& decoder) {
    return usage_error(file + ": damaged JPEG image (" + std::string(decoder.message) +
                       "): allowed is a complete one");
  };
  JpegState decoder{};
  prepare(decoder);
  const Destroy destroy{decoder.jpeg};
  if (!read_header(decoder, bytes)) return bad(decoder);
  ES_RETURN_IF_ERROR(check_image_size(file, decoder.jpeg.image_height, decoder.jpeg.image_width));
  image.height = decoder.jpeg.image_height;
  image.width = decoder.jpeg.image_width;
  const bool four = decoder.jpeg.out_color_space == JCS_CMYK;
  const std::size_t row_bytes = std::size_t{image.width} * (four ? 4 : 3);
  image.pixels.resize(image.height * row_bytes);
  if (!read_pixels(decoder, image.pixels.data(), row_bytes)) return bad(decoder);
  if (four) cmyk_to_rgb(decoder.jpeg.saw_Adobe_marker != FALSE, image.pixels);
  return {};
}

}  // namespace es::store
