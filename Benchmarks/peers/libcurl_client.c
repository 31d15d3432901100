// A client of libcurl's multi interface, over one HTTP/2 connection.
//
//     libcurl_client ORIGIN CA_FILE PATHS_FILE BODY_FILE [NAME:VALUE ...]
//
// For each line "CONCURRENCY SECONDS" of its input it sends for that long, and prints a line of JSON. It measures no latencies.
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char **urls;
static size_t url_count;
static char *body;
static long body_length;

static char *read_file(const char *path, long *length) {
  FILE *file = fopen(path, "rb");
  if (!file) exit(66);
  fseek(file, 0, SEEK_END);
  *length = ftell(file);
  rewind(file);
  char *text = calloc(1, *length + 1);
  if (fread(text, 1, *length, file) != (size_t)*length) exit(66);
  fclose(file);
  return text;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static size_t discard(char *bytes, size_t size, size_t count, void *context) { return size * count; }

static void start(CURLM *multi, CURL *request) {
  static size_t next;
  curl_easy_setopt(request, CURLOPT_URL, urls[next++ % url_count]);
  curl_multi_add_handle(multi, request);
}

int main(int argc, char **argv) {
  if (argc < 5) return 64;
  long length;
  char *paths = read_file(argv[3], &length);
  body = read_file(argv[4], &body_length);
  for (char *path = strtok(paths, "\n"); path; path = strtok(NULL, "\n")) {
    urls = realloc(urls, (url_count + 1) * sizeof *urls);
    size_t size = strlen(argv[1]) + strlen(path) + 1;
    urls[url_count] = malloc(size);
    snprintf(urls[url_count++], size, "%s%s", argv[1], path);
  }
  struct curl_slist *headers = NULL;
  for (int index = 5; index < argc; index++) headers = curl_slist_append(headers, argv[index]);
  curl_global_init(CURL_GLOBAL_ALL);
  CURLM *multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
  curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, 1L);

  int callers;
  double seconds;
  while (scanf("%d %lf", &callers, &seconds) == 2) {
    for (int index = 0; index < callers; index++) {
      CURL *request = curl_easy_init();
      curl_easy_setopt(request, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS);
      curl_easy_setopt(request, CURLOPT_PIPEWAIT, 1L);
      curl_easy_setopt(request, CURLOPT_CAINFO, argv[2]);
      curl_easy_setopt(request, CURLOPT_HTTPHEADER, headers);
      curl_easy_setopt(request, CURLOPT_POSTFIELDSIZE, body_length);
      curl_easy_setopt(request, CURLOPT_POSTFIELDS, body);
      curl_easy_setopt(request, CURLOPT_WRITEFUNCTION, discard);
      start(multi, request);
    }
    double began = now(), end = began + seconds;
    long answered = 0;
    int running = callers;
    while (running > 0) {
      curl_multi_perform(multi, &running);
      int left;
      for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));) {
        if (message->msg != CURLMSG_DONE) continue;
        CURL *request = message->easy_handle;
        long status = 0;
        curl_easy_getinfo(request, CURLINFO_RESPONSE_CODE, &status);
        if (message->data.result != CURLE_OK || status != 200) {
          fprintf(stderr, "%s, status %ld\n", curl_easy_strerror(message->data.result), status);
          return 1;
        }
        answered++;
        curl_multi_remove_handle(multi, request);
        if (now() < end) {
          start(multi, request);
          running++;
        } else {
          curl_easy_cleanup(request);
        }
      }
      if (running > 0) curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    printf("{\"requests\":%ld,\"elapsed\":%f,\"p50\":NaN,\"p99\":NaN}\n", answered, now() - began);
    fflush(stdout);
  }
  return 0;
}
