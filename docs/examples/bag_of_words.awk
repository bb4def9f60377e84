# Multinomial naive Bayes over words: awk -v column=testament|group -f bag_of_words.awk TRAIN.csv HELD.csv, of the files that
# classify_kjv.sh makes. Prints accuracy and macro F1 on HELD.csv.
function words(line, list) {
    line = tolower(line)
    gsub(/[^a-z' ]/, " ", line)
    return split(line, list, " ")
}
FNR == 1 { file++; next }
{
    fields = split($0, field, ",")
    label = field[fields - (column == "testament")]
    text = $0
    sub(/",[^"]*$/, "", text)
    n = words(text, word)
}
file == 1 {
    texts++
    of[label]++
    for (i = 1; i <= n; i++) {
        count[label, word[i]]++
        total[label]++
        if (!(word[i] in known)) { known[word[i]]; size++ }
    }
    next
}
{
    best = ""
    for (l in of) {
        score = log(of[l] / texts)
        for (i = 1; i <= n; i++)
            if (word[i] in known) score += log((count[l, word[i]] + 1) / (total[l] + size))
        if (best == "" || score > top) { best = l; top = score }
    }
    right += best == label
    all++
    hit[label] += best == label
    given[best]++
    support[label]++
}
END {
    for (l in of) { f1 += 2 * hit[l] / (given[l] + support[l]); classes++ }
    printf "%.4f %.4f\n", right / all, f1 / classes
}
