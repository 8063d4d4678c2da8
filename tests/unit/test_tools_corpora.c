/* Corpora of any size through translate: what comes in and goes out, runs that are killed and resumed, shards that are
 * merged. Models: support/word_models.h; on the scalar path, because files are the same on all devices. */
#include <sys/resource.h>

#include "support/word_models.h"

/* Makes a corpus of 300 lines of up to 9 words, some of them empty, and one of 1,500. $X translates in batches of 4. */
static int prepare(void **state) {
  setenv("VKF_DEVICE", "ref", 1);
  if (word_models(state) != 0) return -1;
  setenv("X", "timeout 60 $V translate -m $T/marian --num-beams 1 --max-new-tokens 3 -b 4", 1);
  return system(
      "cd $T && awk 'BEGIN{for(i=1;i<=300;i++){n=i%13?1+i*7%9:0;s=\"\";for(j=0;j<n;j++)s=s\"w\"(5+(i*j+i)%100)\" \";"
      "print s (n?\"<eos>\":\"\")}}' > in && eval \"$X\" < in > whole && test $(wc -l < whole) = 300 && for i in $(seq "
      "5); do cat in >&3; cat whole >&4; done 3> big 4> big.whole");
}

/* ---- what comes in and goes out ---------------------------------------------------------------------------------- */

static void test_forms(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"eval \"$X -i $T/in -o $T/o\" && cmp $T/o $T/whole && test ! -e $T/o.journal", 0, "",
       "vkformer: 300 lines, 23 of them empty\n"},
      {"gzip -c $T/in > $T/in.gz && eval \"$X -i $T/in.gz -o $T/o.gz\" && gzip -dc $T/o.gz | cmp - $T/whole", 0, "",
       NULL},
      {"eval \"$X\" < $T/in.gz | cmp - $T/whole", 0, "", ""},
      {"eval \"$X -i $T/in -o $T/o.zst --workers 2\" && eval \"$X -i $T/o.zst\" > $T/again && "
       "eval \"$X\" < $T/whole | cmp - $T/again",
       0, "", NULL},
      {"eval \"$X -b 99999999 'w5 <eos>'\" > $T/o && eval \"$X 'w5 <eos>'\" | cmp - $T/o", 0, "", ""},
      /* what follows a gzip member must be another one, else the file is damaged */
      {"cd $T; (cat in.gz; echo text) > tail.gz && eval \"$X -i tail.gz\" > o", 4, NULL, "tail.gz: cannot be read: "},
      /* lines before the damage are translated and written, and a run on the whole file resumes after them */
      {"cmp $T/o $T/whole", 0, "", ""},
      {"cd $T; head -c $(($(stat -c %s in.gz) * 3 / 4)) in.gz > most.gz; n=$(zcat most.gz 2>/dev/null | wc -l); "
       "eval \"$X -i most.gz -o most\"; echo $?; head -n $n whole | cmp - most && test $n -gt 100 && "
       "eval \"$X -i in.gz -o most --resume\" && cmp most whole",
       0, "4\n", "most.gz: cannot be read: unexpected end of file"},
      {"cd $T; : > none; for o in none.gz none.zst; do eval \"$X -i none -o $o\"; eval \"$X -i $o\" | wc -c; test -s "
       "$o || echo $o; done",
       0, "0\n0\n", NULL},
      {"cd $T; cp in.gz flip.gz; printf '\\377\\377\\377' | dd of=flip.gz bs=1 conv=notrunc seek=$(($(stat -c %s "
       "in.gz) * "
       "3 / 4)) 2>/dev/null; eval \"$X -i flip.gz\" > flip 2>/dev/null; echo $?; head -n 200 flip > most; "
       "head -n 200 whole | cmp - most && cp in.gz crc.gz && printf x | dd of=crc.gz bs=1 conv=notrunc "
       "seek=$(($(stat -c %s in.gz) - 6)) 2>/dev/null; eval \"$X -i crc.gz\" > o; cmp o whole",
       0, "4\n", "crc.gz: cannot be read: "},
      /* other keys stay as they are written */
      {"printf '{\"t\":\"w5 <eos>\", \"n\":1.10,\"i\":9223372036854775808}\\n' | eval \"$X --jsonl t\" | sed "
       "'s/\"translation.*/x/'",
       0, "{\"t\":\"w5 <eos>\", \"n\":1.10,\"i\":9223372036854775808,x\n", ""},
      {"printf '{\"t\":\"w5 <eos>\",\"translation\":1}\\n' | eval \"$X --jsonl t\" | grep -c "
       "'translation.*translation'",
       1, "0\n", ""},
      {"cat $T/in.gz $T/in.gz > $T/two.gz && eval \"$X -i $T/two.gz\" > $T/o && cat $T/whole $T/whole | cmp - $T/o", 0,
       "", ""},
      {"head -c 300 $T/in.gz > $T/cut.gz && eval \"$X -i $T/cut.gz\"", 4, NULL, "cut.gz: cannot be read: "},
      {"head -c 60 $T/o.zst > $T/cut.zst && eval \"$X -i $T/cut.zst\"", 4, NULL, "cut.zst: cannot be read: "},
      {"eval \"$X -o /dev/stdout\" < $T/in | cmp - $T/whole", 0, "", ""},
      {"printf '1\\tw5 <eos>\\tx\\nw6\\n' | eval \"$X --column 2\" > $T/o; c=$?; sed -n 2p $T/o; "
       "eval \"$X 'w5 <eos>'\" | sed 's/^/1\\tw5 <eos>\\tx\\t/' > $T/o1; head -1 $T/o | cmp - $T/o1; exit $c",
       4, "w6\t\n", "line 2 was skipped: expected 2 columns with tabs between them, found 1"},
      {"printf '{\"n\":1,\"t\":\"w5 <eos>\"}\\n[]\\n' | eval \"$X --jsonl t\" > $T/o; c=$?; "
       "a=$(eval \"$X 'w5 <eos>'\"); test \"$(head -1 $T/o)\" = \"{\\\"n\\\":1,\\\"t\\\":\\\"w5 "
       "<eos>\\\",\\\"translation\\\":\\\"$a\\\"}\" && "
       "sed -n 2p $T/o; exit $c",
       4, "{\"line\":\"[]\",\"skipped\":\"expected a JSON object with a string as \\\"t\\\", found no object\"}\n",
       "line 2 was skipped"},
      {"printf '\\357\\273\\277w5 <eos>\\r\\nw6\\000\\n\\377\\nw5 <eos>' | eval \"$X\" > $T/o; c=$?; wc -l < $T/o; "
       "sed -n 4p $T/o > $T/o4; head -1 $T/o | cmp - $T/o4; exit $c",
       4, "4\n", "skipped 2 of 4 lines"},
      {"(for i in $(seq 200000); do printf 'word '; done; printf '\\nw5 <eos>\\n') | eval \"$X\" > $T/o; c=$?; "
       "eval \"$X 'w5 <eos>'\" > $T/o1; sed -n 2p $T/o | cmp - $T/o1; exit $c",
       4, "", "line 1 was skipped: expected at most"},
      {"eval \"$X --n-best 2 --num-beams 2 'w5 <eos>'\" | sed 's/||| [^|]* ||| F0= -[0-9.]* ||| "
       "-[0-9.]*/x/'",
       0, "0 x\n0 x\n", ""},
      /* only one word has room, so only one translation has it */
      {"W='--num-beams 2 --n-best 2 --force-words w7 --max-new-tokens 1'; eval \"$X $W 'w5 <eos>' 'w6 <eos>'\" | sed "
       "'s/ ||| F0.*//'; eval \"$X $W --json 'w5 <eos>'\" | grep -o '\"translation\"[^,]*'",
       0, "0 ||| w7\n1 ||| w7\n\"translation\":\"w7\"\n", ""},
      {"for o in --normalize --length-penalty; do eval \"$X --num-beams 2 --json $o 0.3 'w5 <eos>'\"; done | uniq | wc "
       "-l; "
       "eval \"$X --num-beams 2 --json 'w5 <eos>'\" | grep -c \"$(eval \"$X --num-beams 2 --json --normalize 0.3 'w5 "
       "<eos>'\" | sed 's/.*score//')\"",
       1, "1\n0\n", ""},
      /* a pipe is read as it comes: the second line is written only after the first is translated */
      {"cd $T; mkfifo pipe; rm -f o; (echo 'w5 <eos>'; n=0; while test ! -s o && test $n -lt 100; do sleep 0.1; "
       "n=$((n+1)); done; test -s o && echo 'w6 <eos>') > pipe & cd $T; eval \"$X -i pipe\" > o; wc -l < o",
       0, "2\n", ""},
      {"a=$(eval \"$X 'w5 <eos>' --json\" | sed 's/.*\"ids\":.\\([0-9]*\\).*/\\1/'); for o in --suppress-tokens=$a "
       "--begin-suppress-tokens=$a --bad-words-ids=[$a],[$a,$a]; do eval \"$X 'w5 <eos>' --json $o\" | grep -c "
       "\"ids\\\":.$a,\"; done",
       1, "0\n0\n0\n", ""},
      /* ids end with the end, whichever of many it is, and even if pads have the same id */
      {"cd $T; a=$(eval \"$X 'w5 <eos>' --json\" | sed 's/.*\"ids\":.\\([0-9]*\\).*/\\1/'); for e in $a "
       "91,92,93,94,95,96,97,98,$a; do echo '{\"pad_token_id\":'$a',\"eos_token_id\":['$e']}' > e; eval \"$X 'w5 "
       "<eos>' --json -g e\" | grep "
       "-o '\"ids\":[^,]*'; done",
       0, "\"ids\":[65]\n\"ids\":[65]\n", ""},
      /* the forced beginning of a translation is a column or a key: the one that would have come anyway, or another */
      {"cd $T; a=$(eval \"$X 'w5 <eos>'\"); printf \"w5 <eos>\\t${a%% *}\\nw5 <eos>\\t\\nw5 <eos>\\tw9 w8\\nw5\\n\" > "
       "p; "
       "eval \"$X --force-decode\" < p > o; c=$?; sed \"s/^$a.*/same/;s/^\\(w9 w8\\) .*/\\1/\" o; exit $c",
       4, "same\nsame\nw9 w8\n\n", "line 4 was skipped: expected 2 columns with tabs between them, found 1"},
      {"cd $T; printf '{\"t\":\"w5 <eos>\",\"prefix\":\"w9 w8\"}\\n' | eval \"$X --force-decode --jsonl t\" | grep -c "
       "'translation\":\"w9 w8 '; printf '1\\tw5 <eos>\\tw9 w8\\n' | eval \"$X --force-decode --column 2\" | grep -c "
       "'w9 w8.w9 w8 '",
       0, "1\n1\n", ""},
      {"printf '{\"t\":\"w5 <eos>\",\"prefix\":null}\n{\"t\":\"w5 <eos>\",\"prefix\":7}\n' | eval \"$X --force-decode "
       "--jsonl t\" | grep -c translation",
       0, "1\n", "line 2 was skipped: expected a JSON object with a string as \"prefix\", found another value"},
      /* a text must have no zero byte; other keys may have one */
      {"cd $T; printf '%s\\n' '{\"t\":\"w5 <eos>\",\"prefix\":\"w9\\u0000 w8\"}' '{\"t\":\"w5\\u0000 <eos>\"}' "
       "'{\"t\":\"w5 <eos>\",\"n\":\"\\u0000\"}' > z; eval \"$X --force-decode --jsonl t\" < z > o; c=$?; grep -c "
       "'as ..prefix.., found one with a zero byte\"}$' o; grep -c 'as ..t.., found one with a zero byte\"}$' o; sed "
       "-n "
       "'3s/\"translation.*/x/p' o; exit $c",
       4, "1\n1\n{\"t\":\"w5 <eos>\",\"n\":\"\\u0000\",x\n", "skipped 2 of 3 lines"},
      {"printf '{\"t\":3}\n' | eval \"$X --jsonl t\" > $T/o", 4, "",
       "line 1 was skipped: expected a JSON object with a string as \"t\", found another value"},
      {"{ printf 'w5 <eos>\\t'; seq -s ' ' 60 | sed 's/[0-9]*/w6/g'; } | eval \"$X --max-new-tokens 30 "
       "--min-new-tokens 30 "
       "--force-decode\" | wc -w",
       0, "63\n", ""},
      /* if a text is split, only its first part has the forced beginning, so the second is shorter */
      {"{ seq -s ' ' 100 | sed 's/[0-9]*/w5/g' | tr '\\n' '\\t'; echo w9 w8; } | eval \"$X --force-decode --long split "
       "--json --max-new-tokens 3 --min-new-tokens 3\" | sed 's/.*\"ids\":.//;s/].*//' | tr , '\\n' | wc -l",
       0, "8\n", ""},
      /* a translation that finds no end has the model's 64 positions, and no other line is lost */
      {"printf 'w5 <eos>\\nw6 <eos>\\n' | eval \"$X --max-new-tokens 500 --min-new-tokens 500\" | wc -lw | xargs", 0,
       "2 128\n", ""},
      {"{ printf 'w5 <eos>\\t'; seq -s ' ' 500 | sed 's/[0-9]*/w6/g'; } | eval \"$X --force-decode\"", 4, "\n",
       "line 1 was skipped: the beginning of its translation has 501 tokens, the start included, and leaves no room "
       "for"},
      {"eval \"$X a --suppress-tokens 5,x\"", 2, "",
       "--suppress-tokens: expected ids, separated by commas, found '5,x'"},
      {"eval \"$X a --bad-words-ids 5\"", 2, "", "--bad-words-ids: expected lists of ids in brackets"},
      {"eval \"$X 'w5 <eos>' --bad-words-ids '' --suppress-tokens ''\" | wc -l", 0, "1\n", ""},
      /* the mean of the word scores is the score, and JSON and text have the same ones */
      {"cd $T; for b in 1 2; do eval \"$X 'w5 <eos>' --num-beams $b --json --word-scores\" | tee j | sed "
       "'s/.*word_scores...//; "
       "s/].*//' | tr ',' '\\n' > w; s=$(sed 's/.*score.:\\([-0-9.e]*\\),.*/\\1/' j); awk -v s=$s '{n++;x+=$1} "
       "END{d=x/n-s; "
       "print (n>0 && s<0 && d*d<1e-9)}' w; eval \"$X 'w5 <eos>' --num-beams $b --word-scores\" | sed 's/.*WordScores= "
       "//' | "
       "tr ' ' '\\n' | paste - w | awk '{d=$1-$2; bad+=d*d>1e-9} END{print (NR>0), bad+0}'; done",
       0, "1\n1 0\n1\n1 0\n", ""},
      {"eval \"$X 'w5 <eos>' --num-beams 2 --n-best 2 --word-scores\" | grep -c '^0 ||| .* ||| WordScores= -[-0-9. ]* "
       "||| F0= '",
       0, "2\n", ""},
      {"eval \"$X 'w5 <eos>' --num-beams 2 --n-best 2 --word-scores\" | sed 's/.*Scores= \\(.*\\) ||| F0= \\(.*\\) "
       "||| .*/\\2 \\1/' | awk '{d=$1; for (i=2; i<=NF; i++) d-=$i; bad+=d*d>1e-9} END{print NR, bad+0}'",
       0, "2 0\n", ""},
      /* alignments change no translation; the hard ones are the largest of the soft ones; over a threshold, JSON and
       * text have the same ones */
      {"cd $T; eval \"$X --alignment hard --workers 2\" < in > a; sed 's/ ||| .*//' a | cmp - whole; eval \"$X "
       "--alignment soft\" < in > s; sed 's/.* ||| //' s | awk '{l=\"\"; m=0; for(i=1;i<=NF;i++){n=split($i,w,\",\"); "
       "b=1;t=0; m=n; for(k=1;k<=n;k++){t+=w[k]; if(w[k]>w[b]) b=k} if((t-1)^2>1e-8) print \"sum\", t; at[i]=b} "
       "for(k=1;k<=m;k++) for(i=1;i<=NF;i++) if(at[i]==k) l=l\" \"(k-1)\"-\"(i-1); print l}' > h; "
       "sed 's/.*|||//' a | cmp - h; wc -l < h",
       0, "300\n", ""},
      {"cd $T; eval \"$X 'w5 w6 w7 <eos>' --num-beams 2 --n-best 2 --alignment 0.01\" | sed 's/.* ||| \\([-0-9 ]*\\) "
       "||| "
       "F0.*/\\1/' > t; awk 'NF>3' t | wc -l; eval \"$X 'w5 w6 w7 <eos>' --num-beams 2 --n-best 2 --alignment 0.01 "
       "--json\" | grep -o 'alignment\":[^}]*' | sed 's/,[0-9.e-]*\\]/]/g; s/\\],\\[/ /g; s/[^0-9, ]//g; s/,/-/g' | "
       "cmp - t",
       0, "2\n", ""},
      {"eval \"$X a --alignment 1.5\"", 2, "",
       "--alignment: expected hard, soft or a number between 0 and 1, found '1.5'"},
      {"eval \"$X -i $T/nosuch\"", 4, "", "nosuch: cannot be read: "},
      {"eval \"$X -i $T/in -o $T/nosuch/o\"", 4, "", "nosuch/o: cannot be written: "},
      {"eval \"$X -i $T/in a\"", 2, "", "expected texts or --input, found both"},
      {"eval \"$X --resume\" < $T/in", 2, "", "--resume: expected --output FILE as well, found none"},
      {"eval \"$X --jsonl t --json\" < $T/in", 2, "", "--jsonl: expected no --json with it, found both"},
  };
  PROGRAM_ROWS(rows);
}

/* Runs that end early: the lines before the end are written, and a reader that stops is not waited for. */
static void test_ends(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"eval \"$X\" < $T/in | head -2 > $T/o; head -2 $T/whole | cmp - $T/o", 0, "", ""},
      {"rm -f $T/o $T/o.journal; (ulimit -f 1; eval \"$X -i $T/in -o $T/o\"); c=$?; test -s $T/o.journal && cmp -n "
       "$(wc -c < $T/o) "
       "$T/o $T/whole && test \"$(tail -c 1 $T/o)\" = '' || exit 9; exit $c",
       4, "", "o: cannot be written: File too large"},
      {"eval \"$X -i $T/in -o $T/o --resume\" && cmp $T/o $T/whole", 0, "", " lines, "},
      /* a run that fails before its first result changes no file, leaves none, and does not block the next run */
      {"echo old > $T/old; eval \"$X -i $T/in -o $T/old --device nosuch\"; c=$?; cat $T/old; ls $T | grep "
       "'old.journal'; "
       "exit $c",
       3, "old\n", "no device matches \"nosuch\": expected gpu, cpu, lavapipe, "},
      {"eval \"$X --attention $T/page.pdf w5\"", 2, "", "--attention: expected a name that ends in .html, found '"},
      {"eval \"$X --max-new-tokens 0 w5\"", 2, "",
       "--max-new-tokens: expected a whole number of at least 1, found '0'"},
      {"eval \"$X -i $T/in -o $T/fresh --device nosuch\" || ls $T | grep -c fresh", 1, "0\n", "no device matches"},
      {"eval \"$X -i $T/in -o $T/old\" && cmp $T/old $T/whole", 0, "", NULL},
      {"cp $T/in $T/same; eval \"$X -i $T/same -o $T/same\"; c=$?; cmp $T/in $T/same; exit $c", 2, "",
       "--output: expected another file than the input, found '"},
      {"eval \"$X -o $T/same\" < $T/same; c=$?; cmp $T/in $T/same; exit $c", 2, "",
       "expected another file than the input"},
      {"eval \"$X --column 2 --num-beams 2 --n-best 2 -i $T/in\"", 2, "",
       "--column: expected one translation of a line, found --n-best 2"},
      {"eval \"$X --jsonl translation -i $T/in\"", 2, "", "--jsonl: expected another key than translation"},
      {"cd $T; echo '{\"x\": [[1, 2]]}' > x.json; $V op softmax -i x.json -o x.json; c=$?; cat x.json; exit $c", 2,
       "{\"x\": [[1, 2]]}\n", "--outputs: expected another file than the input, found 'x.json' for both"},
      /* the scalar path gains nothing from more rows */
      {"echo w5 | $V translate -m $T/marian --num-beams 1 --max-new-tokens 2 -b 512 -v 2>&1 | grep -c 'of 8 rows'", 0,
       "1\n", NULL},
      /* a file never gets the descriptor of a standard stream that was closed */
      {"cd $T; (exec >&- 2>&-; $V translate -m marian --num-beams 1 --max-new-tokens 1 -o closed w5); wc -l < closed",
       0, "1\n", NULL},
      {"{ head -100 $T/in; printf '\\377\\n'; } | eval \"$X --invalid fail -o $T/p\"; c=$?; head -100 $T/whole | cmp - "
       "$T/p; "
       "exit $c",
       4, "", "line 101: expected UTF-8, found the byte 0xff after 0 bytes"},
  };
  PROGRAM_ROWS(rows);
}

/* ---- runs that are killed ---------------------------------------------------------------------------------------- */

/* Kills a run up to four times, each time after a fifth to three fifths of the time of a whole run, and resumes it. */
static void must_survive(const char *name, const char *unpack) {
  char command[1280];
  snprintf(
      command, sizeof command,
      "cd $T; R=\"$V translate -m $T/marian --num-beams 1 --max-new-tokens 3 -b 4 -i big\"; t=$(date +%%s%%N); "
      "$R -o timed 2>/dev/null; t=$(($(date +%%s%%N) - t)); rm -f timed %s %s.journal; s=1; n=0; "
      "for i in $(seq 4); do $R -o %s --resume 2>/dev/null & p=$!; s=$(((s * 75 + 74) %% 65537)); "
      "sleep $(echo $t $((20 + s %% 40)) | awk '{print $1 * $2 / 1e11}'); kill -9 $p 2>/dev/null; wait $p; "
      "test -e %s.journal || break; n=$((n + 1)); done; "
      "echo \"killed $n times\" >&2; test $n -ge 1 || exit 7; "
      "test ! -e %s.journal || eval \"$X -i big -o %s --resume\" && %s %s | cmp - big.whole && test ! -e %s.journal",
      name, name, name, name, name, name, unpack, name, name);
  program_must(command, 0, "", "killed ");
}

static void test_kills(void **state) {
  (void)state;
  must_survive("killed", "cat");
  must_survive("killed.gz", "gzip -dc");
}

/* A run is resumed only with the model, the options and the corpus that it was begun with. */
static void test_resumes(void **state) {
  (void)state;
  static const program_row rows[] = {
      /* ended by a line that is not UTF-8, which the corpus of the later rows lacks */
      {"cd $T; { head -100 in; printf '\\377\\n'; tail -n +102 in; } > bad; eval \"$X -i bad -o r --invalid fail\"", 4,
       "", "line 101"},
      {"eval \"$X -i $T/in -o $T/r --invalid fail\"", 4, "",
       "an earlier run did not finish it: continue with --resume"},
      {"eval \"$X -i $T/in -o $T/r --resume\"", 4, "", "expected the model and the options of the run to resume"},
      {"eval \"$X -i $T/in -o $T/r --invalid fail --resume --shard 1/2\"", 4, "", "expected --shard 1/1"},
      {"sed '3s/w/x/' $T/in > $T/other; eval \"$X -i $T/other -o $T/r --invalid fail --resume\"", 4, "",
       "other: expected the lines of the run to resume, found other ones among the first 100 "},
      {"head -20 $T/in | eval \"$X -o $T/r --invalid fail --resume\"", 4, "",
       "expected the 100 lines that the run to resume had done, found 20"},
      /* the same files in another folder are the same model, and others are not */
      {"cd $T; cp -r marian m2; cp -r marian m3; printf x | dd of=m3/model.safetensors bs=1 seek=$(($(wc -c < "
       "m3/model.safetensors) - 1)) conv=notrunc 2> e; eval \"$X -m m3 -i in -o r --invalid fail --resume\"",
       4, "", "expected the model and the options of the run to resume, found others"},
      {"cd $T; sed '2s/./x/' r > r2; cp r.journal r2.journal; eval \"$X -i in -o r2 --invalid fail --resume\"; c=$?; "
       "wc -l < r2; exit $c",
       4, "100\n", "r2: it was changed after the run to resume wrote it: expected hash "},
      /* what a kill left after the last record is dropped */
      {"head -100 $T/whole | cmp - $T/r && printf 'half a li' >> $T/r && printf '7 7' >> $T/r.journal && eval \"$X -m "
       "$T/m2 -i $T/in -o $T/r --invalid fail --resume\" && cmp $T/r $T/whole",
       0, "", NULL},
      {"eval \"$X -i $T/in -o $T/r --resume\"", 4, "", "r: expected $T/r.journal beside it, found none"},
      {"cd $T; head -c 9 whole > d; printf 'vkformer-journal/2 0 1/1 1\\nnonsense\\n' > d.journal; "
       "eval \"$X -i in -o d --resume\"",
       4, "", "d.journal: expected a journal of vkformer"},
      {"eval \"$X -i $T/bad -o $T/r8 --invalid fail --weights int8\"", 4, "", "line 101"},
      {"eval \"$X -i $T/in -o $T/r8 --invalid fail --weights int8 --activations q8 --resume\"", 4, "",
       "expected the model and the options of the run to resume"},
  };
  char message[256];
  program_row own[sizeof rows / sizeof rows[0]];
  memcpy(own, rows, sizeof rows);
  snprintf(message, sizeof message, "r: expected %s/r.journal beside it, found none", program_folder);
  own[9].err = message;
  PROGRAM_ROWS(own);
  /* A corpus that changes while it is read is refused. */
  program_must(
      "cd $T; cp big moving; mkfifo go; (read x < go; echo w9 >> moving) & "
      "(eval \"$X -i moving -o m\"; echo $? > code) 2> e & while test ! -s m; do sleep 0.01; done; echo > go; wait; "
      "cat e >&2; exit $(cat code)",
      4, "", "moving: it was changed while it was read");
}

/* ---- shards ------------------------------------------------------------------------------------------------------ */

static void test_shards(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"cd $T; for i in 1 2 3; do eval \"$X -i in -o s$i --shard $i/3\" || exit 9; done; $V merge s3 s1 s2 -o merged "
       "&& "
       "cmp merged whole && test ! -e merged.journal && $V merge s1 s2 s3 | cmp - whole",
       0, "", NULL},
      {"cd $T; B='--num-beams 2 --n-best 2'; head -30 in > few; eval \"$X $B -i few -o n\"; for i in 1 2; do "
       "eval \"$X $B -i few -o n$i --shard $i/2\" || exit 9; done; $V merge n2 n1 | cmp - n",
       0, "", NULL},
      /* lists of fewer than N */
      {"cd $T; B='--num-beams 2 --n-best 2 --force-words w7 --max-new-tokens 1'; eval \"$X $B -i few -o n\"; for i in "
       "1 "
       "2; do eval \"$X $B -i few -o n$i --shard $i/2\" || exit 9; done; $V merge n2 n1 | cmp - n; wc -l < n",
       0, "30\n", NULL},
      {"cd $T; B='--return-alternatives --n-best 4 --min-alternative-expansion-prob 0.01'; eval \"$X $B -i few -o n\"; "
       "for i in 1 2; do eval \"$X $B -i few -o n$i --shard $i/2\" || exit 9; done; $V merge n2 n1 | cmp - n; cut -d' "
       "' "
       "-f1 n | uniq -c | awk '{ print ($1 < 4) }' | sort -u",
       0, "0\n1\n", NULL},
      /* a finished shard is left as it is, if it is of this corpus */
      {"cd $T; eval \"$X -i in -o s1 --shard 1/3 --resume\"", 0, "", ""},
      {"cd $T; sed '4s/w/x/' in > near; eval \"$X -i near -o s1 --shard 1/3 --resume\"", 4, "",
       "near: expected the lines of the run to resume, found other ones among the first 300 "},
      {"cd $T; (cat in; echo w5) > near; eval \"$X -i near -o s1 --shard 1/3 --resume\"", 4, "",
       "near: expected the 300 lines of the run to resume, which is done, found more"},
      {"cd $T; sed '2s/./x/' s1 > v1; cp s1.journal v1.journal; eval \"$X -i in -o v1 --shard 1/3 --resume\"", 4, "",
       "v1: it was changed after the run to resume wrote it: expected hash "},
      {"cd $T; echo >> v1; eval \"$X -i in -o v1 --shard 1/3 --resume\"", 4, "", "bytes that the run to resume wrote"},
      {"cd $T; cp s1.journal v1.journal; $V merge s1 s2 s3 -o s1.journal; c=$?; cmp s1.journal v1.journal; exit $c", 2,
       "", "--output: expected another file than the input, found 's1.journal' for both"},
      {"cd $T; cp s1 x.merging; cp s1.journal x.merging.journal; $V merge x.merging s2 s3 -o x; c=$?; cmp s1 "
       "x.merging; "
       "exit $c",
       2, "", "--output: expected another file than the input, found 'x.merging' for both"},
      {"cd $T; $V merge s1 s3", 4, "", "expected shards 1 to 3, found no shard 2"},
      {"cd $T; cp s2 t2; cp s2.journal t2.journal; $V merge s1 s2 t2 s3", 4, "", "shard 2/3 was given twice: "},
      {"cd $T; sed '2s,$,x,' t2 > t; mv t t2; $V merge s1 t2 s3 -o nothing", 4, "",
       "t2: it was changed after it was written"},
      {"cd $T; cp s1 u1; cp s1.journal u1.journal; $V merge u1 s2 s3 -o u1; c=$?; cmp u1 s1; exit $c", 2, "",
       "--output: expected another file than the input, found 'u1' for both"},
      /* if merging fails, the old output stays, even if more than a block was to be written */
      {"cd $T; head -900 big > some; eval \"$X --json -i some\" > sj; for i in 1 2; do eval \"$X --json -i some -o b$i "
       "--shard $i/2\" || exit 9; done; echo old > bm; cp b1 b0; echo x >> b1; $V merge b1 b2 -o bm; c=$?; cat bm; ls "
       "bm*; "
       "cp b0 b1; $V merge b1 b2 -o bm && cmp bm sj && $V merge b1 b2 -o bm.gz && gzip -dc bm.gz | cmp - bm && ls bm*; "
       "test $(wc -c < sj) -gt 70000 || echo few; exit $c",
       4, "old\nbm\nbm\nbm.gz\n", "b1: it was changed after it was written"},
      {"cd $T; sed -i '$d' t2.journal; $V merge s1 t2 s3", 4, "", "t2: shard 2/3 is not finished: "},
      {"cd $T; rm t2.journal; $V merge s1 t2 s3", 4, "", "t2: expected t2.journal beside it, found none"},
      {"cd $T; head -20 in > few; eval \"$X -i few -o t2 --shard 2/3\"; $V merge s1 t2 s3", 4, "",
       "expected the corpus of s1"},
      {"eval \"$X -i $T/in --shard 4/3\"", 2, "", "--shard: expected I/N with I from 1 to N, found '4/3'"},
      {"eval \"$X -i $T/in --shard 0/3\"", 2, "", "--shard: expected I/N with I from 1 to N, found '0/3'"},
      {"eval \"$X -i $T/in --shard 99999999999999999999/99999999999999999999\"", 2, "",
       "--shard: expected I/N with I from 1 to N, found '9999"},
      {"eval \"$X -i $T/in --shard 1\"", 2, "", "--shard: expected I/N with I from 1 to N, found '1'"},
  };
  PROGRAM_ROWS(rows);
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

/* sacreBLEU's worked example (its README), and numbers by its definitions, from Python with numpy's generator. */
static void test_evaluate(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"cd $T; printf \"The dog bit the man.\\nIt wasn't surprising.\\nThe man had just bitten him.\\n\" > h; "
       "printf 'The dog bit the man.\\nIt was not unexpected.\\nThe man bit him first.\\n' > r1; "
       "printf 'The dog had bit the man.\\nNo one was surprised.\\nThe man had bitten the dog.\\n' > r2; "
       "$V evaluate h r1 r2",
       0,
       "BLEU|nrefs:2|case:mixed|eff:no|tok:13a|smooth:exp|version:2.0.0 = 48.53 82.4/50.0/45.5/37.5 (BP = 0.943 ratio "
       "= "
       "0.944 hyp_len = 17 ref_len = 18)\nchrF2|nrefs:2|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.0.0 = 59.73\n",
       ""},
      {"cd $T; $V evaluate h r1 --baseline r2 | sed 's/.* = \\([0-9.]* (.*)\\) .*(p =/\\1 (p =/;s/.*2.0.0 = //'", 0,
       "22.97 (\xce\xbc = 22.69 \xc2\xb1 21.66)", ""},
      {"cd $T; $V evaluate h r1 --baseline r2", 0, "= 45.07 (\xce\xbc = 42.39 \xc2\xb1 46.75) ", ""},
      {"cd $T; $V evaluate h r1 --baseline r2", 0, "= 50.04 (\xce\xbc = 50.94 \xc2\xb1 37.63) (p = 0.0450)\n", ""},
      {"cd $T; $V evaluate h r1 --samples 10", 0, "BLEU|nrefs:1|bs:10|seed:12345|case:mixed|", ""},
      {"cd $T; printf '\\n\\n\\n' > e; $V evaluate e r1 | sed 's/.*2.0.0 = //'", 0, "0.00 0.0/0.0/0.0/0.0 (BP = 0.000 ",
       ""},
      {"cd $T; head -2 r1 > r3; $V evaluate h r3", 4, "", "r3: expected 3 lines, as the first file has, found 2"},
      {"cd $T; printf 'a\\n\\377\\n' > bad; $V evaluate bad bad", 4, "",
       "bad: line 2: expected UTF-8, found the byte 0xff"},
      {"cd $T; $V evaluate e0 r1", 4, "", "e0: cannot be read"},
      {"$V evaluate $T/h", 2, "", "expected HYPOTHESES and REFERENCES"},
      /* entities, symbols, points and dashes next to digits, spaces outside ASCII */
      {"cd $T; printf '&quot;1,000-2.5&quot; a-b, c. (d)\\302\\240e\\n' > t1; printf '\" 1,000 - 2.5 \" a-b , c . ( d "
       ") e\\n' > t2; "
       "$V evaluate t1 t2 | sed 's/.*2.0.0 = //'",
       0, "100.00 100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000 hyp_len = 13 ref_len = 13)", ""},
  };
  PROGRAM_ROWS(rows);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Runs a command and returns the most memory that any command had until now, in kB. */
static long memory_of(const char *command) {
  program_must(command, 0, NULL, NULL);
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss; /* of the largest child until now */
}

static void test_memory(void **state) {
  (void)state;
  setenv("ASAN_OPTIONS", "quarantine_size_mb=16", 1); /* else its 256 MB of freed blocks are counted, too */
  const long small = memory_of("cd $T; for i in 1 2; do cat in; done > c; eval \"$X --max-new-tokens 1 -i c -o co\"");
  const long large =
      memory_of("cd $T; for i in $(seq 10); do cat in; done > c; eval \"$X --max-new-tokens 1 -i c -o co\"");
  unsetenv("ASAN_OPTIONS");
  if (large > small + small / 10) fail_msg("3,000 lines took %ld kB, 600 took %ld", large, small);
}

/* ---- short lists ------------------------------------------------------------------------------------------------- */

/* By the short list, word i may become i+1, i+2 or i+3; the first is the most likely. */
static void test_shortlist(void **state) {
  (void)state;
  static const program_row rows[] = {
      {"cd $T; for i in $(seq 100); do for j in 3 2 1; do echo w$((i+j)) w$i 0.$((4-j)); done; done | grep -vw w36 > "
       "list; "
       "eval \"$X --shortlist list,1,2\" < in > o && ! cmp -s o whole && eval \"$X --workers 2 -b 1 --shortlist "
       "list,1,2\" < in | cmp - o",
       0, "", ""},
      {"cd $T; eval \"$X --shortlist list,1,1 --json 'w5 w9 <eos>'\" | sed 's/.*ids...//;s/].*//' | tr , '\\n' | grep "
       "-vxc '0\\|5\\|6\\|9\\|10\\|36'",
       1, "0\n", ""},
      {"cd $T; (cat list; echo NULL w5 1; echo w5 w9999 0.1; echo; printf 'w7\\tw6 0.1\\r\\n') > list2; eval \"$X "
       "--shortlist list2,1,2\" < in | cmp - o",
       0, "", "lines name tokens that the model's vocabulary does not have and are left out; the first is line 296, "},
      {"cd $T; (cat in; printf '\\377\\n') > bad; X=\"$X -i bad -o so --invalid fail --shortlist list2,1,2\"; eval $X "
       "2> "
       "/dev/null; echo w5 w6 1 >> list2; eval $X --resume",
       4, "", "expected the model and the options of the run to resume"},
      {"cd $T; echo w5 w6 much > bad; eval \"$X --shortlist bad w5\"", 4, "",
       "bad, line 1: expected \"target source probability\" with spaces between them, found \"w5 w6 much\""},
      {"cd $T; echo no words 1 > bad; eval \"$X --shortlist bad w5\"", 4, "",
       "bad: expected lines \"target source probability\" with tokens of the model's vocabulary, found none among 1 "
       "lines; no token: \"words\""},
      {"cd $T; eval \"$X --shortlist nosuch,5,5 w5\"", 4, "", "nosuch"},
      {"cd $T; eval \"$X --shortlist ,5,5 w5\"", 2, "", "--shortlist: expected FILE or FILE,FIRST,BEST, found ',5,5'"},
  };
  PROGRAM_ROWS(rows);
}

PROGRAM_MAIN(prepare, cmocka_unit_test(test_memory), cmocka_unit_test(test_forms), cmocka_unit_test(test_ends),
             cmocka_unit_test(test_kills), cmocka_unit_test(test_resumes), cmocka_unit_test(test_shards),
             cmocka_unit_test(test_evaluate), cmocka_unit_test(test_shortlist))
