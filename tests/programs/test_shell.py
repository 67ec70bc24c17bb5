"""The shell and the small programs of coreutils and util-linux."""

import pytest

from tests.programs.sides import Sides

pytestmark = [pytest.mark.mount, pytest.mark.programs]


def test_here_documents_and_redirections(sides: Sides) -> None:
    sides.run(
        """
        cat > f <<END
one $((1 + 1))
END
        cat >> f <<'END'
two $HOME
END
        while read -r line; do echo "<$line>"; done < f
        exec 3<> f; read -r -u 3 first; echo "$first"; printf Z >&3; exec 3>&-
        set -C; echo no > f || echo kept; echo yes >| f; set +C
        { echo out; echo err >&2; } > o 2> e
        mapfile -t lines < f; echo "${#lines[@]}"; [[ -s f && f -nt absent ]]
        """
    )
    assert sides.history() == [
        ("a", "created", "/f", "one 2\n"),
        ("a", "modified", "/f", "one 2\ntwo $HOME\n"),
        ("a", "modified", "/f", "one 2\nZwo $HOME\n"),
        ("a", "modified", "/f", "yes\n"),
        ("b", "created", "/o", "out\n"),
        ("c", "created", "/e", "err\n"),
    ]


def test_each_program_that_writes_to_one_redirection_is_a_version(sides: Sides) -> None:
    """Known: it ends, and so closes the descriptor that it inherited, which may be the last that is heard of it."""
    sides.run(
        """
        { date -d @0; uname; } > f
        { date -d @0; uname; } | cat > g
        for number in 1 2 3; do echo $number; done > h
        """
    )
    date = "Thu Jan  1 00:00:00 UTC 1970\n"
    assert sides.history() == [
        ("a", "created", "/f", date),
        ("a", "modified", "/f", f"{date}Linux\n"),
        ("b", "created", "/g", f"{date}Linux\n"),
        ("c", "created", "/h", "1\n2\n3\n"),
    ]


def test_truncate(sides: Sides) -> None:
    sides.run("echo 0123456789 > f; truncate -s 5 f; truncate -s +3 f; truncate -c -s 9 absent; truncate -r f g")
    assert sides.history() == [
        ("a", "created", "/f", "0123456789\n"),
        ("a", "modified", "/f", "01234"),
        ("a", "modified", "/f", "01234\0\0\0"),
        ("b", "created", "/g", "\0" * 8),
    ]


def test_dd(sides: Sides) -> None:
    """Into the middle, to the end, with its synchronous and direct ways, and the whole of a large memory."""
    sides.run(
        """
        echo 0123456789 > f
        printf XX | dd of=f bs=1 seek=3 conv=notrunc status=none
        printf end | dd of=f oflag=append conv=notrunc,fsync status=none
        dd if=f bs=1 skip=3 count=2 status=none
        dd if=f of=g conv=ucase,fdatasync status=none
        dd if=f of=g oflag=sync,direct bs=4096 status=none
        head -c 100000 /dev/zero | tr '\\0' a > $T/large
        dd if=$T/large of=large bs=1k status=none
        cmp large $T/large; rm large
        """
    )
    assert sides.history()[:5] == [
        ("a", "created", "/f", "0123456789\n"),
        ("a", "modified", "/f", "012XX56789\n"),
        ("a", "modified", "/f", "012XX56789\nend"),
        ("b", "created", "/g", "012XX56789\nEND"),
        ("b", "modified", "/g", "012XX56789\nend"),
    ]
    assert [step[:3] for step in sides.history()[5:]] == [("c", "created", "/large"), ("c", "deleted", "/large")]


def test_fallocate_is_there_by_emulation_only(sides: Sides) -> None:
    """Known: the system call is refused with the errno that makes libc emulate it, which `fallocate -x` asks for."""
    sides.run("echo 0123 > f; fallocate -x -l 8 f")
    assert sides.history() == [("a", "created", "/f", "0123\n"), ("a", "modified", "/f", "0123\n\0\0\0")]
    done = sides.mount.run("fallocate -l 10 f")
    assert (done.status, done.errors) == (1, "fallocate: fallocate failed: Operation not supported\n")
    sides.agree()


def test_split(sides: Sides) -> None:
    sides.run(
        """
        seq 6 > f
        split -l 3 f part-; cat part-* | cmp - f
        csplit -s f 4; cat xx0* | cmp - f
        split -n 2 --additional-suffix=.md f n
        split --filter='tr 1 X > $FILE' -l 3 f q
        """
    )
    assert {step[1] for step in sides.history()} == {"created"}
    assert [step[2] for step in sides.history()] == [
        *("/f", "/part-aa", "/part-ab", "/xx00", "/xx01", "/naa.md", "/nab.md", "/qaa", "/qab")
    ]
    assert sides.history()[-2:] == [("h", "created", "/qaa", "X\n2\n3\n"), ("i", "created", "/qab", "4\n5\n6\n")]


def test_flock(sides: Sides) -> None:
    """Four processes count to twenty, and no number is lost."""
    said = sides.run(
        """
        touch l; echo 0 > c
        flock l -c 'echo held; flock -n l -c "echo both" || echo busy'
        exec 9>> l; flock 9; flock -n l true || echo busy; flock -u 9; flock -n l echo free
        exec 9>&-
        for process in 1 2 3 4; do
            (for count in 1 2 3 4 5; do flock -w 20 l -c 'n=$(cat c); echo $((n + 1)) > c'; done) &
        done
        wait; cat c
        """
    )
    assert said == "held\nbusy\nbusy\nfree\n20\n"
    assert sides.history() == [
        ("a", "created", "/l", ""),
        ("b", "created", "/c", "0\n"),
        *(("b", "modified", "/c", f"{number}\n") for number in range(1, 21)),
    ]


def test_moving_installing_and_sums(sides: Sides) -> None:
    sides.run(
        """
        echo a > a; install -m 640 -D a d/e/a; cp --reflink=auto a b; echo b > b
        mv -bv a b; ls -A; rm b~
        touch -r b c; shuf b -o b; uniq b d/u; tac b; stat -c '%n %s %a %F' b
        du -b b; md5sum b > sums; md5sum -c sums; sync b; cat b b > both; wc both; rm -r d
        """
    )
    assert sides.history() == [
        ("a", "created", "/a", "a\n"),
        ("b", "created", "/d/e/a", "a\n"),
        ("c", "created", "/b", "a\n"),
        ("c", "modified", "/b", "b\n"),
        ("a", "deleted", "/a", None),
        ("c", "modified", "/b", "a\n"),
        ("d", "created", "/c", ""),
        ("e", "created", "/d/u", "a\n"),
        ("f", "created", "/sums", "60b725f10c9c85c70d97880dfe8191b3  b\n"),
        ("g", "created", "/both", "a\na\n"),
        *sides.history()[-2:],
    ]
    assert {step[1:3] for step in sides.history()[-2:]} == {("deleted", "/d/e/a"), ("deleted", "/d/u")}


def test_links_and_pipes_are_refused_in_one_line(sides: Sides) -> None:
    """Known: a store holds files and directories."""
    done = sides.mount.run("echo a > a; ln -s a b || echo $?; ln a c || echo $?; mkfifo p || echo $?")
    assert done.output == "1\n1\n1\n"
    assert [line.rpartition(": ")[2] for line in done.errors.splitlines()] == ["Operation not permitted"] * 3
    assert sides.history() == [("a", "created", "/a", "a\n")]
