/*
 * A lean subscriber: one thread that holds many sockets of a stream, and says what came and how late.
 *
 *     reader HOST PORT COUNT websocket|raw REQUEST GREETING READY
 *
 * REQUEST is sent on each new connection, `{n}` in it replaced by the socket's number and `{query}` by what `connect`
 * was given. With `websocket`, an answer of 101 is awaited and frames follow; with `raw`, the payload follows at once.
 * GREETING (may be empty) is sent then, as a text frame on a websocket. A socket is ready when READY came (or at once,
 * where it is empty).
 *
 * The payload is searched for the marks of notes, `~~P:IIIIIIII:TTTTTTTTTTTTTTTT~` (phase, index, nanoseconds of
 * CLOCK_MONOTONIC, all hexadecimal), and for the `"seq":N,"at":` of events; nothing is parsed beyond that. The clock is
 * read once for each recv(), after it.
 *
 * Commands on standard input, one a line; answers are lines of JSON on standard output:
 *
 *     begin P CAPACITY      count phase P, with indices below CAPACITY, from nothing
 *     window BYTES          let the kernel take no more than this for a socket that is opened from now on
 *     connect QUERY         open all sockets at once; answers when each is ready or has failed
 *     count                 how many notes of the phase came, over all sockets
 *     report PUBLISHED      what came of indices below PUBLISHED
 *     close                 drop all sockets
 *
 * It ends with its standard input.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADROOM = 2048,       /* what one socket may keep for its next recv() */
    RECV_BYTES = 1 << 18,
    MARK_BYTES = 30,
    CODES = 8,             /* different close codes that are told apart */
    STEPS = 1024,          /* of a histogram, for each power of two: 0.1 % */
    BUCKETS = STEPS * 24,
    EVENTS = 256,
};

typedef enum { CLOSED, CONNECTING, SHAKING, OPEN } state_t;

typedef struct {
    int fd;
    state_t state;
    bool ready;
    uint8_t opcode;
    uint64_t missing;      /* payload of the current frame that was not yet consumed */
    uint64_t begun_ns;
    int64_t seq;           /* the newest that came, -1 before the first */
    size_t kept;
    unsigned char keep[HEADROOM];
} subscriber_t;

typedef struct {
    uint64_t count[BUCKETS], total, max_us;
} histogram_t;

static struct {
    struct sockaddr_in address;
    int count, epoll;
    bool websocket;
    const char *request, *greeting, *ready;
    char query[1024];
    int window;            /* SO_RCVBUF, 0 for what the kernel likes */
    subscriber_t *subscribers;

    bool connecting;
    uint64_t begun_ns;
    int ready_count, failed;
    histogram_t ready_us;

    int phase;
    uint64_t capacity, received, doubles, gaps, repeats;
    uint64_t *seen;        /* one row of bits an index, one bit a subscriber: a shared frame touches one row */
    uint32_t *reached;     /* how many subscribers have the index */
    size_t row_words;
    histogram_t each_us, last_us;

    int close_codes[CODES];
    uint64_t close_counts[CODES];
} me;

static unsigned char buffer[HEADROOM + RECV_BYTES];

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* --- histograms ---------------------------------------------------------------------------------------------------- */

static void add(histogram_t *of, uint64_t us) {
    unsigned shift = us < 2 * STEPS ? 0 : 53 - (unsigned)__builtin_clzll(us);
    uint64_t bucket = (uint64_t)shift * STEPS + (us >> shift);
    of->count[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    of->total++;
    if (us > of->max_us)
        of->max_us = us;
}

static double at_ms(const histogram_t *of, double share) {
    uint64_t wanted = (uint64_t)(share * (double)of->total + 0.999999), passed = 0;
    for (uint64_t bucket = 0; bucket < BUCKETS; bucket++) {
        passed += of->count[bucket];
        if (passed >= wanted) {
            uint64_t shift = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
            return (double)((bucket - shift * STEPS) << shift) / 1e3;
        }
    }
    return (double)of->max_us / 1e3;
}

static void print_quantiles(const char *name, const histogram_t *of) {
    printf("\"%s\":{\"count\":%llu", name, (unsigned long long)of->total);
    if (of->total)
        printf(",\"p50\":%.3f,\"p95\":%.3f,\"p99\":%.3f,\"max\":%.3f", at_ms(of, 0.50), at_ms(of, 0.95),
               at_ms(of, 0.99), (double)of->max_us / 1e3);
    printf("}");
}

/* --- one subscriber ------------------------------------------------------------------------------------------------ */

static void tell_ready(void) {
    if (!me.connecting || me.ready_count + me.failed < me.count)
        return;
    me.connecting = false;
    printf("{\"ready\":%d,\"failed\":%d,\"took_ms\":%.3f,", me.ready_count, me.failed,
           (double)(now_ns() - me.begun_ns) / 1e6);
    print_quantiles("each", &me.ready_us);
    printf("}\n");
    fflush(stdout);
}

static void become_ready(subscriber_t *one) {
    one->ready = true;
    me.ready_count++;
    add(&me.ready_us, (now_ns() - one->begun_ns) / 1000);
    tell_ready();
}

static void drop(subscriber_t *one, int code) {
    if (one->state == CLOSED)
        return;
    close(one->fd);
    one->state = CLOSED;
    for (int at = 0; at < CODES; at++)
        if (me.close_codes[at] == code || me.close_counts[at] == 0) {
            me.close_codes[at] = code;
            me.close_counts[at]++;
            break;
        }
    if (!one->ready) {
        me.failed++;
        tell_ready();
    }
}

static void put(subscriber_t *one, const void *data, size_t size) {
    if (send(one->fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        drop(one, 1006);
}

/* A masked frame with the mask 0, which leaves the payload as it is. */
static void put_frame(subscriber_t *one, int opcode, const unsigned char *payload, size_t size) {
    unsigned char frame[6 + 125] = {(unsigned char)(0x80 | opcode), (unsigned char)(0x80 | size)};
    memcpy(frame + 6, payload, size);
    put(one, frame, 6 + size);
}

static void take_mark(subscriber_t *one, uint64_t index, uint64_t at_ns, uint64_t when_ns) {
    size_t number = (size_t)(one - me.subscribers);
    if (index >= me.capacity)
        return;
    uint64_t *word = me.seen + index * me.row_words + number / 64, bit = 1ull << (number % 64);
    if (*word & bit) {
        me.doubles++;
        return;
    }
    *word |= bit;
    me.received++;
    uint64_t late_us = when_ns > at_ns ? (when_ns - at_ns) / 1000 : 0;
    add(&me.each_us, late_us);
    if (++me.reached[index] == (uint32_t)me.count)
        add(&me.last_us, late_us);
}

static void take_seq(subscriber_t *one, int64_t seq) {
    if (one->seq >= 0 && seq > one->seq + 1)
        me.gaps += (uint64_t)(seq - one->seq - 1);
    if (one->seq >= seq)
        me.repeats++;
    else
        one->seq = seq;
}

/* An event's own seq is followed by its time; the seqs that it speaks of, and those of other frames, are not. */
static void take_seqs(subscriber_t *one, const unsigned char *from, const unsigned char *to) {
    while ((from = memmem(from, (size_t)(to - from), "\"seq\":", 6))) {
        int64_t seq = 0;
        for (from += 6; from < to && *from >= '0' && *from <= '9'; from++)
            seq = seq * 10 + (*from - '0');
        if (to - from >= 6 && !memcmp(from, ",\"at\":", 6))
            take_seq(one, seq);
    }
}

static uint64_t hex(const unsigned char *at, int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; i++)
        value = value << 4 | (uint64_t)(at[i] <= '9' ? at[i] - '0' : at[i] - 'a' + 10);
    return value;
}

/* Find the marks in a payload; give how much of it needs not be seen again once the rest of it has come. */
static size_t scan(subscriber_t *one, const unsigned char *from, size_t size, bool whole, uint64_t when_ns) {
    const unsigned char *end = from + size, *done = from, *at = from;
    if (!one->ready && memmem(from, size, me.ready, strlen(me.ready)))
        become_ready(one);
    while ((at = memchr(at, '~', (size_t)(end - at))) && end - at >= MARK_BYTES) {
        if (at[1] != '~') {
            at++;
            continue;
        }
        take_seqs(one, done, at);
        if ((int)hex(at + 2, 1) == me.phase)
            take_mark(one, hex(at + 4, 8), hex(at + 13, 16), when_ns);
        done = at += MARK_BYTES;
    }
    if (whole) {
        take_seqs(one, done, end);
        return size;
    }
    return end - done > HEADROOM / 2 ? size - HEADROOM / 2 : (size_t)(done - from);
}

static void take_control(subscriber_t *one, const unsigned char *payload, size_t size) {
    if (one->opcode == 9)
        put_frame(one, 10, payload, size);
    else if (one->opcode == 8)
        drop(one, size >= 2 ? payload[0] << 8 | payload[1] : 1005);
}

/* Read a frame's head; give its size, or 0 while it is not whole. */
static size_t take_head(subscriber_t *one, const unsigned char *at, size_t size) {
    if (size < 2)
        return 0;
    size_t length = at[1] & 0x7f, more = length == 126 ? 2 : length == 127 ? 8 : 0;
    if (size < 2 + more)
        return 0;
    if (more)
        for (size_t i = length = 0; i < more; i++)
            length = length << 8 | at[2 + i];
    one->opcode = at[0] & 0x0f;
    one->missing = length;
    return 2 + more;
}

/* Consume what came on an open socket; give how much of it. */
static size_t take_payload(subscriber_t *one, const unsigned char *from, size_t size, uint64_t when_ns) {
    const unsigned char *at = from, *end = from + size;
    if (!me.websocket)
        return scan(one, from, size, false, when_ns);
    while (at < end && one->state == OPEN) {
        if (!one->missing) {
            size_t head = take_head(one, at, (size_t)(end - at));
            if (!head)
                break;
            at += head;
            if (!one->missing && one->opcode >= 8)
                take_control(one, at, 0);
            continue;
        }
        size_t there = (size_t)(end - at);
        bool whole = there >= one->missing;
        size_t used = whole ? one->missing : there;
        if (one->opcode < 8)
            used = scan(one, at, used, whole, when_ns);
        else if (whole)
            take_control(one, at, used);
        else
            break;
        at += used;
        one->missing -= used;
        if (!whole)
            break;
    }
    return (size_t)(at - from);
}

static void enter(subscriber_t *one) {
    one->state = OPEN;
    size_t size = strlen(me.greeting);
    if (size && me.websocket)
        put_frame(one, 1, (const unsigned char *)me.greeting, size);
    else if (size)
        put(one, me.greeting, size);
    if (one->state == OPEN && !*me.ready)
        become_ready(one);
}

/* Consume the answer to the handshake; give its size, or 0 while it is not whole. */
static size_t take_handshake(subscriber_t *one, const unsigned char *from, size_t size) {
    const unsigned char *end = memmem(from, size, "\r\n\r\n", 4);
    if (!end)
        return 0;
    if (size < 12 || memcmp(from + 8, " 101", 4)) {
        fprintf(stderr, "refused: %.*s\n", (int)size, from);
        drop(one, 1006);
        return size;
    }
    enter(one);
    return (size_t)(end + 4 - from);
}

static void on_readable(subscriber_t *one) {
    ssize_t got = recv(one->fd, buffer + HEADROOM, RECV_BYTES, 0);
    uint64_t when_ns = now_ns();
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            drop(one, 1006);
        return;
    }
    unsigned char *at = buffer + HEADROOM - one->kept, *end = buffer + HEADROOM + got;
    memcpy(at, one->keep, one->kept);
    if (one->state == SHAKING)
        at += take_handshake(one, at, (size_t)(end - at));
    if (one->state == OPEN)
        at += take_payload(one, at, (size_t)(end - at), when_ns);
    one->kept = (size_t)(end - at);
    if (one->state != CLOSED && one->kept > HEADROOM) {
        fprintf(stderr, "%zu bytes that cannot be kept\n", one->kept);
        drop(one, 1006);
    } else if (one->state != CLOSED)
        memcpy(one->keep, at, one->kept);
}

/* --- all of them --------------------------------------------------------------------------------------------------- */

static void watch(subscriber_t *one, uint32_t events, int how) {
    struct epoll_event wanted = {.events = events, .data.ptr = one};
    if (epoll_ctl(me.epoll, how, one->fd, &wanted))
        fail("epoll_ctl");
}

static void append(char *into, size_t room, const char *text, size_t size) {
    size_t used = strlen(into);
    if (used + size >= room) {
        fprintf(stderr, "the request is too long\n");
        exit(1);
    }
    memcpy(into + used, text, size);
    into[used + size] = 0;
}

static void on_connected(subscriber_t *one) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) {
        drop(one, 1006);
        return;
    }
    char request[4096] = "", number[16];
    int digits = snprintf(number, sizeof number, "%04d", (int)(one - me.subscribers));
    for (const char *at = me.request; *at;) {
        if (!strncmp(at, "{n}", 3)) {
            append(request, sizeof request, number, (size_t)digits);
            at += 3;
        } else if (!strncmp(at, "{query}", 7)) {
            append(request, sizeof request, me.query, strlen(me.query));
            at += 7;
        } else
            append(request, sizeof request, at++, 1);
    }
    watch(one, EPOLLIN, EPOLL_CTL_MOD);
    one->state = SHAKING;
    if (*request)
        put(one, request, strlen(request));
    if (!me.websocket && one->state == SHAKING)
        enter(one);
}

static void begin_connection(subscriber_t *one) {
    one->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (one->fd < 0)
        fail("socket");
    int on = 1;
    setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (me.window)
        setsockopt(one->fd, SOL_SOCKET, SO_RCVBUF, &me.window, sizeof me.window);
    one->state = CONNECTING;
    one->ready = false;
    one->missing = 0;
    one->kept = 0;
    one->seq = -1;
    one->begun_ns = now_ns();
    watch(one, EPOLLOUT, EPOLL_CTL_ADD);
    if (connect(one->fd, (struct sockaddr *)&me.address, sizeof me.address) && errno != EINPROGRESS)
        drop(one, 1006);
}

static void connect_all(const char *query) {
    snprintf(me.query, sizeof me.query, "%s", query);
    memset(&me.ready_us, 0, sizeof me.ready_us);
    me.ready_count = me.failed = 0;
    me.connecting = true;
    me.begun_ns = now_ns();
    for (int at = 0; at < me.count; at++)
        begin_connection(&me.subscribers[at]);
}

static void close_all(void) {
    for (int at = 0; at < me.count; at++)
        drop(&me.subscribers[at], 0);
    memset(me.close_codes, 0, sizeof me.close_codes);
    memset(me.close_counts, 0, sizeof me.close_counts);
    printf("{}\n");
}

/* --- commands ------------------------------------------------------------------------------------------------------ */

static void begin(int phase, uint64_t capacity) {
    free(me.seen);
    free(me.reached);
    me.row_words = ((size_t)me.count + 63) / 64;
    me.seen = calloc(capacity ? capacity : 1, me.row_words * sizeof *me.seen);
    me.reached = calloc(capacity ? capacity : 1, sizeof *me.reached);
    if (!me.seen || !me.reached)
        fail("calloc");
    me.phase = phase;
    me.capacity = capacity;
    me.received = me.doubles = me.gaps = me.repeats = 0;
    memset(&me.each_us, 0, sizeof me.each_us);
    memset(&me.last_us, 0, sizeof me.last_us);
    printf("{}\n");
}

static void set_window(int bytes) {
    me.window = bytes;
    printf("{}\n");
}

static void report(uint64_t published) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    uint64_t there = 0;
    for (uint64_t index = 0; index < published && index < me.capacity; index++)
        there += me.reached[index];
    printf("{\"expected\":%llu,\"received\":%llu,", (unsigned long long)(published * (uint64_t)me.count),
           (unsigned long long)me.received);
    printf("\"holes\":%llu,\"doubles\":%llu,", (unsigned long long)(published * (uint64_t)me.count - there),
           (unsigned long long)me.doubles);
    printf("\"seq_gaps\":%llu,\"seq_repeats\":%llu,", (unsigned long long)me.gaps, (unsigned long long)me.repeats);
    print_quantiles("each", &me.each_us);
    printf(",");
    print_quantiles("last", &me.last_us);
    printf(",\"cpu_s\":%.3f,\"closed\":{",
           (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    for (int at = 0; at < CODES && me.close_counts[at]; at++)
        printf("%s\"%d\":%llu", at ? "," : "", me.close_codes[at], (unsigned long long)me.close_counts[at]);
    printf("}}\n");
}

static void obey(const char *line) {
    int phase;
    unsigned long long number;
    if (sscanf(line, "begin %d %llu", &phase, &number) == 2)
        begin(phase, number);
    else if (sscanf(line, "window %llu", &number) == 1)
        set_window((int)number);
    else if (!strncmp(line, "connect ", 8))
        connect_all(line + 8);
    else if (!strcmp(line, "count"))
        printf("{\"received\":%llu}\n", (unsigned long long)me.received);
    else if (sscanf(line, "report %llu", &number) == 1)
        report(number);
    else if (!strcmp(line, "close"))
        close_all();
    else {
        fprintf(stderr, "not a command: %s\n", line);
        exit(2);
    }
    fflush(stdout);
}

static void on_commands(void) {
    static char lines[4096];
    static size_t used;
    ssize_t got = read(STDIN_FILENO, lines + used, sizeof lines - 1 - used);
    if (got <= 0)
        exit(0);
    used += (size_t)got;
    lines[used] = 0;
    char *at = lines, *end;
    while ((end = strchr(at, '\n'))) {
        *end = 0;
        obey(at);
        at = end + 1;
    }
    used -= (size_t)(at - lines);
    memmove(lines, at, used);
}

static void turn(void) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(me.epoll, events, EVENTS, -1);
    for (int at = 0; at < count; at++) {
        subscriber_t *one = events[at].data.ptr;
        if (!one)
            on_commands();
        else if (one->state == CONNECTING)
            on_connected(one);
        else if (one->state != CLOSED)
            on_readable(one);
    }
}

static void raise_descriptor_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
    if (argc != 8) {
        fprintf(stderr, "usage: reader HOST PORT COUNT websocket|raw REQUEST GREETING READY\n");
        return 2;
    }
    raise_descriptor_limit();
    me.address.sin_family = AF_INET;
    me.address.sin_port = htons((uint16_t)atoi(argv[2]));
    if (inet_pton(AF_INET, argv[1], &me.address.sin_addr) != 1)
        fail("address");
    me.count = atoi(argv[3]);
    me.websocket = !strcmp(argv[4], "websocket");
    me.request = argv[5];
    me.greeting = argv[6];
    me.ready = argv[7];
    me.subscribers = calloc((size_t)me.count, sizeof *me.subscribers);
    me.epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event commands = {.events = EPOLLIN, .data.ptr = NULL};
    if (!me.subscribers || me.epoll < 0 || epoll_ctl(me.epoll, EPOLL_CTL_ADD, STDIN_FILENO, &commands))
        fail("start");
    for (;;)
        turn();
}
