# Makes a table of Markdown of the measurements of one part of run.sh: lines "NAME {JSON}", one a round.
#
#     awk -v part=PART -v cores=N -f tables.awk FILE
#
# A time is the median of the rounds, each of which is the median of its steps; the spread is from the fastest to the slowest
# round. A ratio of two programs is the median of the ratios of each round, since they ran one after the other.

BEGIN {
    keys = split("step_ms step_ms_min tokens_per_sec gemm_gflops share_of_gemm peak_rss_bytes base_rss_bytes " \
                 "planned_bytes parameters first_loss last_loss", key, " ")
}

{
    if (!($1 in count)) names[++name_count] = $1
    round = ++count[$1]
    for (i = 1; i <= keys; i++) value[$1, key[i], round] = member(key[i])
    kernels = member("computes")
    if (kernels != "") built["anneal: " kernels] = 1
    if (member("torch") != "") built["PyTorch " member("torch") ": " member("capability")] = 1
}

END {
    for (line in built) print "  " line
    print ""
    if (part == "step") print_steps()
    if (part == "presets") print_presets()
    if (part == "threads") print_threads()
    if (part == "growth") print_growth()
    if (part == "llmc") print_llmc()
    if (part == "interval") print_intervals()
}

function member(name,   text) {
    if (!match($0, "\"" name "\": *\"?[^\"}]*")) return ""
    text = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*: *"?/, "", text)
    if ($0 !~ "\"" name "\": *\"") sub(/,.*/, "", text)
    return text
}

# ---- numbers of one measurement ----
function collect(name, what,   i) { # into sorted[1..sorted_count]
    sorted_count = 0
    for (i = 1; i <= count[name]; i++) insert(value[name, what, i])
}

function insert(x,   k) {
    for (k = ++sorted_count; k > 1 && sorted[k - 1] > x + 0; k--) sorted[k] = sorted[k - 1]
    sorted[k] = x + 0
}

function middle() { return sorted_count % 2 ? sorted[(sorted_count + 1) / 2] : (sorted[sorted_count / 2] + sorted[sorted_count / 2 + 1]) / 2 }

function median(name, what) { collect(name, what); return middle() }

function least(name, what) { collect(name, what); return sorted[1] }

# a / b of each round: "1.25 × (1.21–1.30)"; "" where one is missing
function relative(a, b, what,   i) {
    sorted_count = 0
    for (i = 1; i <= count[a] && i <= count[b]; i++) insert(value[a, what, i] / value[b, what, i])
    if (!sorted_count) return ""
    return sprintf("%.2f ×", middle()) (sorted_count > 1 ? sprintf(" (%.2f–%.2f)", sorted[1], sorted[sorted_count]) : "")
}

# ---- text ----
function grouped(x,   text) { # 1,118
    text = sprintf("%.0f", x)
    return length(text) > 3 ? substr(text, 1, length(text) - 3) "," substr(text, length(text) - 2) : text
}

function number(x) { return x < 10 ? sprintf("%.2f", x) : x < 100 ? sprintf("%.1f", x) : grouped(x) }

function spread(name) {
    collect(name, "step_ms")
    return number(middle()) " ms | " (sorted_count > 1 ? number(sorted[1]) "–" number(sorted[sorted_count]) : "")
}

function mebibytes(name) { return grouped(median(name, "peak_rss_bytes") / 1048576) " MiB" }

function losses(name) { return sprintf("%.2f → %.2f", value[name, "first_loss", 1], value[name, "last_loss", 1]) }

function percent(x) { return sprintf("%.0f %%", 100 * x) }

function title(name) {
    sub(/.*\//, "", name)
    sub(/^anneal-/, "anneal ", name)
    sub(/^eager-/, "PyTorch eager ", name)
    sub(/^compile-/, "PyTorch compiled ", name)
    if (name == "llmc") return "llm.c fp32"
    return name
}

# ---- parts ----
function print_steps(   i, name, own) {
    print "| preset tiny, batch 16 × 256, Lion | step | rounds | tokens/s | anneal's speed relative to it | peak memory | share of a large product | loss, 1st and last step |"
    print "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for (i = 1; i <= name_count; i++) {
        name = names[i]
        own = name ~ /bf16/ ? "anneal-bf16" : "anneal-fp32"
        printf "| %s | %s | %s | %s | %s | %s | %s |\n", title(name), spread(name), grouped(median(name, "tokens_per_sec")), \
            own == name ? "" : relative(own, name, "tokens_per_sec"), mebibytes(name), \
            own == name ? percent(median(name, "share_of_gemm")) " of " grouped(median(name, "gemm_gflops")) " GFLOP/s" : "", losses(name)
    }
}

function print_llmc(   i, name) {
    print "| 124 M, batch 4 × 64, AdamW | step | rounds | tokens/s | anneal's speed relative to it | peak memory | loss, 1st step |"
    print "| --- | --- | --- | --- | --- | --- | --- |"
    for (i = 1; i <= name_count; i++) {
        name = names[i]
        printf "| %s | %s | %s | %s | %s | %.2f |\n", title(name), spread(name), number(median(name, "tokens_per_sec")), \
            name == "llmc" ? relative("anneal-fp32", name, "tokens_per_sec") : "", mebibytes(name), \
            value[name, "first_loss", 1]
    }
}

function print_presets(   i, name, part, modes) {
    split("compile eager", modes, " ")
    print "| AdamW | step | tokens/s | share of a large product | peak memory | of PyTorch's, compiled; eager | without PyTorch's libraries | speed relative to PyTorch, compiled; eager |"
    print "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for (i = 1; i <= name_count; i++) {
        name = names[i]
        if (name !~ /anneal/) continue
        split(name, part, "/")
        printf "| %s %s, %s × 256 | %s ms | %s | %s | %s | ", part[1], substr(part[3], 8), part[2], number(median(name, "step_ms")), \
            grouped(median(name, "tokens_per_sec")), percent(median(name, "share_of_gemm")), mebibytes(name)
        print compared(name, modes, 1) " | " compared(name, modes, 2) " | " compared(name, modes, 3) " |"
    }
}

function compared(name, modes, what,   k, torch, text, x) { # what: 1 memory, 2 memory without libraries, 3 speed
    for (k = 1; k <= 2; k++) {
        torch = name
        sub(/anneal/, modes[k], torch)
        x = "-"
        if (torch in count && what == 3) x = sprintf("%.2f ×", median(name, "tokens_per_sec") / median(torch, "tokens_per_sec"))
        else if (torch in count)
            x = sprintf("%.2f ×", median(name, "peak_rss_bytes") / (median(torch, "peak_rss_bytes") - (what == 2) * median(torch, "base_rss_bytes")))
        text = text (k > 1 ? "; " : "") x
    }
    return text
}

function print_threads(   i, name, part, one) {
    print "| preset tiny, batch 16 × 256, Lion | step | rounds | speed-up | efficiency | efficiency of the large product |"
    print "| --- | --- | --- | --- | --- | --- |"
    for (i = 1; i <= name_count; i++) {
        name = names[i]
        split(name, part, "/")
        one = part[1] "/1"
        printf "| %s, %d thread%s | %s | %.2f × | %s | %s |\n", part[1], part[2], (part[2] > 1 ? "s" : ""), spread(name), \
            median(one, "step_ms") / median(name, "step_ms"), percent(median(one, "step_ms") / median(name, "step_ms") / part[2]), \
            percent(median(name, "gemm_gflops") / median(one, "gemm_gflops") / part[2])
    }
}

function print_intervals() {
    if (!count["interval/0"] || !count["interval/1"]) return
    print "| preset tiny, batch 2 × 256, AdamW | step | rounds | peak memory |"
    print "| --- | --- | --- | --- |"
    print "| activation_interval 0 | " spread("interval/0") " | " mebibytes("interval/0") " |"
    print "| activation_interval 1 | " spread("interval/1") " | " mebibytes("interval/1") " |"
    print "| 1 relative to 0 | " relative("interval/1", "interval/0", "step_ms") " | | " \
        relative("interval/1", "interval/0", "peak_rss_bytes") " |"
}

# ---- growth ----
# A cost a + b·x^p, measured at x, 2x, 4x, …, grows by b(2^p − 1)·x^p from one value to the next, whatever the constant a is. So p
# is the slope of a line through the logarithms of these differences, by least squares. A difference weighs the more, the
# larger it is beside what it is the difference of, since that is what noise is in proportion to.
function exponent(x, y, n,   i, d, w, u, v, W, U, V, UU, UV, used) {
    for (i = 1; i < n; i++) {
        d = y[i + 1] - y[i]
        if (d <= 0) continue
        w = d * d / (y[i] * y[i] + y[i + 1] * y[i + 1])
        u = log(x[i])
        v = log(d)
        W += w; U += w * u; V += w * v; UU += w * u * u; UV += w * u * v
        used++
    }
    if (used < 3 || y[n] < 1.1 * y[1]) return "none"
    return (W * UV - U * V) / (W * UU - U * U)
}

function shown(p) { return p == "none" ? "constant" : sprintf("%.2f", p) }

function print_growth(   i, name, part, variable, variables, order) {
    for (i = 1; i <= name_count; i++) {
        name = names[i]
        split(name, part, "/")
        if (!(part[1] in size)) order[++variables] = part[1]
        xs[part[1], ++size[part[1]]] = part[2]
    }
    print "| grows | values | time of a step | peak memory | exponent of time: measured; of the FLOPs | of memory | of the planned memory | |"
    print "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for (i = 1; i <= variables; i++) print_variable(order[i])
}

function print_variable(variable,   i, n, name, x, ms, rss, plan, work, T, values, times, memory, p, q, r, expected, note) {
    n = size[variable]
    for (i = 1; i <= n; i++) {
        x[i] = xs[variable, i]
        name = variable "/" x[i]
        ms[i] = least(name, "step_ms_min")
        rss[i] = least(name, "peak_rss_bytes")
        plan[i] = least(name, "planned_bytes")
        # base: T 128, L 2, B 2, C 128; half of attention's pairs are masked
        T = variable == "T" ? x[i] : 128
        work[i] = (variable == "B" ? x[i] : 2) * T * (6 * least(name, "parameters") + 6 * (variable == "L" ? x[i] : 2) * 128 * T)
        values = values (i > 1 ? ", " : "") x[i]
        times = times (i > 1 ? ", " : "") (variable == "threads" && x[i] > cores ? "-" : number(ms[i]))
        memory = memory (i > 1 ? ", " : "") grouped(rss[i] / 1048576)
    }
    q = exponent(x, rss, n)
    r = exponent(x, plan, n)
    if (variable == "threads") {
        for (i = n; i > 1 && x[i] > cores; i--);
        p = i > 1 ? log(ms[i] / ms[1]) / log(x[i]) : "none"
        expected = -1
    } else {
        p = exponent(x, ms, n)
        expected = exponent(x, work, n)
    }
    if (p != "none" && p > expected + 0.15) note = "**time grows faster than the FLOPs**"
    if (q != "none" && q > 1.1 || r != "none" && r > 1.1) note = note (note == "" ? "" : ", ") "**memory grows faster than linearly**"
    printf "| %s | %s | %s ms | %s MiB | %s; %s | %s | %s | %s |\n", variable, values, times, memory, shown(p), shown(expected), shown(q), shown(r), note
}
