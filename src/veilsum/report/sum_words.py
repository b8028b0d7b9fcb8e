"""What each kind of sum is, and what it leaves open, in German.

In English the page that members read says it. By the names that recipes give their
sums, and by their own sentences on what is open. A test holds both together.
"""

from __future__ import annotations

from collections.abc import Mapping

from veilsum.jobs.dispatch_periods import FLEETS
from veilsum.jobs.fitting import FRACTIONS
from veilsum.jobs.meta import FEW_STUDIES
from veilsum.jobs.mixed import PARTIES_EACH, POLES
from veilsum.jobs.releases import OBJECTIONS, REBUILT
from veilsum.parties.consent import GENERATORS
from veilsum.report.plan_facts import SumFacts
from veilsum.report.sentences import Language

FOLDS = ", without each fold"
# What the page of the members says in fewer words, for it names the bins itself.
ENGLISH: Mapping[str, str] = {
    "parties that hold each level, cell, bin and value": "for each level, cell, bin or "
    "value that is counted, how many members have any row with it; which members is "
    "not said, and still follows for a member where it is all of the others, or none",
    "cells of histograms and tables": "how many rows of all members are in each bin "
    "and each combination of levels of the question, and in each group",
}
_PAIRS = "für je zwei Spalten des Modells und jede mit sich selbst"
_WEIGHED = (
    "jede Zeile gewichtet nach dem Modell beim Stand dieser Runde (zu Beginn nach "
    "einer ersten Schätzung)"
)
_LEFT_OUT = "wie viele Zeilen wegen fehlender Werte weggelassen sind"
GERMAN: Mapping[str, str] = {
    "parties that hold each level, cell, bin and value": "für alles, wonach gezählt "
    "wird: wie viele Mitglieder Zeilen damit haben; welche, wird nicht gesagt und "
    "folgt doch für ein Mitglied, wenn es alle anderen sind oder keines davon",
    "parties that hold several of a column": "für jede Gruppe davon: wie viele "
    "Mitglieder Zeilen mit mehreren ihrer Ausprägungen, Zellen, Intervalle oder Werte "
    "haben",
    "parties with rows that have one variable and lack another": "für je zwei Größen, "
    "in beiden Richtungen, und für jede Größe und alle anderen zusammen: wie viele "
    "Mitglieder eine Zeile der Gruppe haben, in der die erste steht und die zweite "
    "fehlt; die Gruppengröße zählt als Größe, die nirgends fehlt",
    "parties with minimum_count of these rows": "wie viele Mitglieder mindestens "
    "minimum_count solche Zeilen haben",
    "parties that refuse a variable on its own rows": "für jede Größe: wie viele "
    "Mitglieder sie nach den Regeln ablehnen, wenn sie auf allen Zeilen beschrieben "
    "wird, die sie und eine Gruppe haben; eine solche Größe, und eine, deren Zeilen "
    "sich von denen einer anderen um zu wenige Zeilen oder Mitglieder unterscheiden, "
    "wird auf vollständigen Zeilen beschrieben",
    "X'WX": f"{_PAIRS} die Summe ihrer Produkte über alle Zeilen, jeweils mal dem "
    "Gewicht der Zeile",
    "X'Wy": "für jede Spalte des Modells die Summe ihrer Produkte mit der Zielgröße, "
    "jeweils mal dem Gewicht der Zeile",
    "y'Wy, sums of Wy, of the weights and of their logarithms": "vier Summen über alle "
    "Zeilen: der quadrierten Zielgröße, der Zielgröße, der Gewichte und ihrer "
    "Logarithmen. Hat die Frage keine Gewichte, ist das Gewicht jeder Zeile 1: dann "
    "ist die dritte Summe die Anzahl der Zeilen und die vierte 0",
    "rows, and rows left out": "wie viele Zeilen alle Mitglieder zusammen haben, und "
    + _LEFT_OUT,
    "X'WX within parties": "für je zwei Spalten des Modells, und jede mit sich selbst, "
    "die Summe über alle Mitglieder von dem, was die Produkte ihrer Zeilen um die "
    "eigenen Mittelwerte ergeben; jedes Mitglied rundet einmal",
    "X'Wy within parties": "dasselbe für jede dieser Spalten mit der Zielgröße",
    "y'Wy within parties, and the sum of the logarithms of weights": "dasselbe für die "
    "Zielgröße mit sich selbst; und die Summe der Logarithmen der Gewichte, ohne "
    "Gewichte 0",
    "rows, parties, and rows left out": "wie viele Zeilen und wie viele Mitglieder "
    f"dabei sind, und {_LEFT_OUT}",
    "rows with the event in each bin of the prediction": "für jedes Intervall der "
    "Vorhersage: wie viele Zeilen das Ereignis haben",
    "rows without the event in each bin": "für jedes Intervall: wie viele es nicht "
    "haben",
    "sum of predictions in each bin": "für jedes Intervall die Summe der "
    "vorhergesagten Wahrscheinlichkeiten",
    "sum of squared errors, and rows left out": "die Summe der quadrierten Abstände "
    f"zwischen Ereignis (0 oder 1) und Vorhersage, und {_LEFT_OUT}",
    "sums of responses and of their squares": "die Summen der Zielgröße und ihrer "
    "Quadrate über alle Zeilen",
    "sums of predictions and of their squares": "die Summen der Vorhersagen und ihrer "
    "Quadrate über alle Zeilen",
    "sums of squared and of absolute errors": "die Summen der quadrierten und der "
    "absoluten Abstände zwischen Zielgröße und Vorhersage",
    "events in each interval and bin of risk": "für jeden Zeitraum und jedes Intervall "
    "des Risikos: wie viele Zeilen dort mit dem Ereignis enden",
    "rows that end without the event in each interval and bin of risk": "ebenso, wie "
    "viele dort ohne das Ereignis enden",
    "rows of each bin of risk that go on after the last time": "für jedes Intervall "
    "des Risikos: wie viele Zeilen nach allen vereinbarten Zeiten enden",
    "X'X of each fold": f"für jeden Teil der Zeilen, {_PAIRS.removeprefix('für ')}, "
    "die Summe ihrer Produkte",
    "X'y of each fold": "für jeden Teil und jede Spalte die Summe ihrer Produkte mit "
    "der Zielgröße",
    "y'y, and sums of y, of ones and of their logarithms, of each fold": "für jeden "
    "Teil die Summen der quadrierten Zielgröße, der Zielgröße und der Einsen; die "
    "letzte ist 0",
    "rows of each fold": "wie viele Zeilen in jedem Teil sind",
    "rows of each fold without a mean, by the fit without it": "für jeden Teil: wie "
    "viele Zeilen eine Vorhersage haben, die zum Summieren zu groß ist",
    "deviances of each fold, by the fit without it and by its null model": "für jeden "
    "Teil zwei Summen, die sagen, wie weit die Zielgröße von der Vorhersage liegt: "
    "nach dem Modell ohne diesen Teil, und nach einem Achsenabschnitt allein",
    "squared errors of each fold, by the fit without it": "für jeden Teil die Summe "
    "der quadrierten Abstände zwischen Zielgröße und Vorhersage",
    "X'V^-1X, X'V^-1y, y'V^-1y": "für je zwei Spalten des Modells und der Zielgröße "
    "die Summe ihrer Produkte über alle Mitglieder, die Zeilen eines Mitglieds "
    "gewichtet nach ihrer Ähnlichkeit; jedes Mitglied rundet einmal",
    "log det V": "die Summe über alle Mitglieder davon, wie viel diese Ähnlichkeit "
    "abzieht, als Logarithmus; sie hängt davon ab, wie viele Zeilen ein Mitglied hat",
    "their derivatives by T": "wie schnell sich diese Summen mit jeder Zahl von T "
    "ändern, den Kovarianzen, für die theta steht",
    "second derivatives by T": "für je zwei Zahlen von T, wie schnell sich die "
    "Steigung der Likelihood ändert, auf halb so viele Stellen; ein Mitglied mit sehr "
    "großen Werten gibt eine vereinbarte Grenze an",
    "sums over studies of w, w y, w y^2 and w^2": "vier Summen über Mitglieder; y ist "
    "der Koeffizient aus den eigenen Zeilen eines Mitglieds, w eins durch das Quadrat "
    "seines Standardfehlers",
    "sums over studies of v and v y": "zwei weitere, mit Gewichten v, die Unterschiede "
    "zwischen Mitgliedern berücksichtigen",
    "rows": "wie viele Zeilen alle zusammen haben",
    "rows left out": _LEFT_OUT,
    OBJECTIONS: "0, außer wenn die Summen der Runde auf zu wenigen Zeilen eines "
    "Mitglieds beruhen würden: dann sind alle Zahlen der Runde zufällig, der Lauf "
    "endet, und nichts verrät, wer widersprochen hat",
    "information": f"{_PAIRS} die Summe ihrer Produkte über alle Zeilen, {_WEIGHED}",
    "rows of each level of the response": "wie viele Zeilen jede Ausprägung der "
    "Zielgröße haben",
    "information about the choice": "für je zwei Koeffizienten und jeden mit sich "
    "selbst die Summe der Produkte ihrer Spalten, jede Zeile gewichtet danach, wie "
    "wahrscheinlich die Ausprägungen in ihr sind",
    "score of the choice": "für jeden Koeffizienten die Summe seiner Spalte mal dem "
    "Abstand zwischen der Ausprägung einer Zeile und deren Wahrscheinlichkeit",
    "log-likelihood of the choice": "wie wahrscheinlich die Koeffizienten die "
    "Ausprägungen aller Zeilen machen, als Logarithmus",
    "sums of weights and responses": "zwei Summen über alle Zeilen: der Gewichte, und "
    "der Zielgröße mal dem Gewicht der Zeile",
    "saturated log-likelihood without constants": "der Teil davon, wie gut ein Modell "
    "passte, das jede Zeile genau trifft, von dem aus Abweichungen gemessen werden",
    "sums of offsets, and of offsets times responses": "zwei Summen über alle Zeilen: "
    "der festen Zusätze, und der festen Zusätze mal der Zielgröße",
    "X'W mu": "für jede Spalte des Modells die Summe ihrer Produkte mit dem Modellwert "
    "beim Stand dieser Runde; die Zielgröße ist nicht darin",
    "cumulants": "die Summe einer Funktion des Modellwerts über alle Zeilen, aus der "
    "folgt, wie gut das Modell passt; die Zielgröße ist nicht darin",
    "mean, information and cumulants of the null model": "dasselbe für ein Modell, das "
    "nur einen Achsenabschnitt hat: drei Zahlen",
    "Pearson's sum": "die Summe der quadrierten Abstände zwischen Zielgröße und "
    "Modell, jeder geteilt durch die erwartete Streuung",
    "X'y of each level": "für jede Ausprägung der Zielgröße außer der ersten und jede "
    "Spalte des Modells die Summe der Spalte über die Zeilen mit dieser Ausprägung",
    "sums of columns times chances": "für jeden Koeffizienten die Summe seiner Spalte "
    "mal der Wahrscheinlichkeit seiner Ausprägung beim Stand dieser Runde; die "
    "Zielgröße ist nicht darin",
    "cumulants of the choice": "die Summe einer Funktion der Wahrscheinlichkeiten über "
    "alle Zeilen, aus der folgt, wie gut das Modell passt; die Zielgröße ist nicht "
    "darin",
    "X'Vz": "für jede Spalte des Modells die Summe ihrer Produkte mit der "
    "umgerechneten Zielgröße, jede Zeile gewichtet nach einer ersten Schätzung",
    "sums of weights, responses, offsets, saturated log-likelihood": "vier Summen über "
    "alle Zeilen: der Gewichte, der Zielgröße, der festen Zusätze, und davon, wie gut "
    "ein Modell passte, das jede Zeile genau trifft",
    "score": "für jede Spalte des Modells die Summe ihrer Produkte mit dem Abstand "
    "zwischen Zielgröße und Modell",
    "deviance": "eine Summe über alle Zeilen, die sagt, wie weit die Zielgröße von der "
    "Vorhersage der Koeffizienten entfernt ist, auf der Skala der Likelihood",
    "deviance, Pearson's sum": "zwei Summen über alle Zeilen, die sagen, wie weit die "
    "Zielgröße vom Modell liegt",
    "score, information and deviance of the null model": "dasselbe für ein Modell, das "
    "nur einen Achsenabschnitt hat: drei Zahlen",
    "slope and curvature in log theta, saturated log-likelihood": "drei Summen über "
    "alle Zeilen: wie sich die Güte des Modells mit der Streuung von Anzahlen ändert, "
    "wie schnell, und wie gut ein Modell passte, das jede Zeile genau trifft",
    "score's change with log theta": "für jede Spalte des Modells, wie sich ihre Summe "
    "von Abständen mit der Streuung ändert",
    "expected information with further columns": f"{_PAIRS}, auch die geprüften, die "
    f"Summe ihrer Produkte, {_WEIGHED}",
    "score with further columns": "für jede dieser Spalten die Summe ihrer Produkte "
    "mit dem Abstand zwischen Zielgröße und Modell, am Ergebnis",
    "rows outside, of the model and of the null model": "wie viele Zeilen bei den "
    "nächsten Koeffizienten einen Modellwert haben, der zum Summieren zu groß ist",
    "saturated log-likelihood": "die Summe davon, wie gut ein Modell passte, das jede "
    "Zeile genau trifft",
    "products of rows' scores": f"{_PAIRS} die Summe ihrer Produkte, jeweils mal dem "
    "Quadrat von Gewicht und Abstand der Zeile vom Modell",
    "products of rows' scores, by leverage": "dasselbe, jede Zeile geteilt durch das, "
    "was ihr eigener Einfluss übrig lässt",
    "rows with a leverage next to 1": "wie viele Zeilen ihren Modellwert fast allein "
    "bestimmen, so dass sich nicht teilen lässt",
    "products of parties' scores": "eine Summe über Mitglieder, nicht über Zeilen: für "
    "je zwei Spalten das Produkt dessen, was die Summen von Spalte mal Abstand bei "
    "einem Mitglied ergeben. Wie groß diese bei einem Mitglied höchstens sind, folgt "
    "daraus für alle",
    "sums of columns": "für jede Spalte von Zahlen ihre Summe über alle Zeilen",
    "sums of products of columns": "für je zwei Spalten von Zahlen und jede mit sich "
    "selbst die Summe ihrer Produkte über alle Zeilen",
    "cells of histograms and tables": "wie viele Zeilen aller Mitglieder in jedem "
    "Intervall und jeder Kombination von Ausprägungen der Frage sind, und in jeder "
    "Gruppe",
    "rows of each group": "wie viele Zeilen in jeder Gruppe sind",
    "rows of each column in each group": "für jede Spalte von Zahlen und jede Gruppe, "
    "wie viele Zeilen beschrieben werden: die der Gruppe, die die Spalte haben, oder "
    "die in allen Spalten vollständigen",
    "sums of columns in each group": "für jede Spalte von Zahlen und jede Gruppe ihre "
    "Summe über die Zeilen der Gruppe",
    "sums of squares of columns in each group": "ebenso die Summe ihrer Quadrate",
    "missing values of each column": "für jede Spalte, wie vielen Zeilen sie fehlt",
    "missing values of each column in each group": "dasselbe in jeder Gruppe, von "
    "Zeilen, deren Gruppe bekannt ist",
    "events in each group and interval": "für jede Gruppe und jeden Zeitraum: wie "
    "viele Zeilen dort mit dem Ereignis enden",
    "censored rows in each group and interval": "ebenso, wie viele dort ohne das "
    "Ereignis enden",
    "rows of each group that go on after the last time": "für jede Gruppe: wie viele "
    "Zeilen später enden, womit auch immer",
    "information of the partial likelihood": f"{_PAIRS}, wie sehr sie unter denen, die "
    "noch dabei sind, gemeinsam schwanken, über die Ereignisse aller Mitglieder "
    "summiert",
    "score of the partial likelihood": "für jede Spalte des Modells ihr Wert bei jedem "
    "Ereignis weniger ihrem Mittel unter denen, die dann noch dabei sind, summiert",
    "log partial likelihood": "wie wahrscheinlich die Koeffizienten es machen, dass "
    "die Ereignisse auf diese Zeilen fielen, als Logarithmus",
    "rows, events, and rows left out": "wie viele Zeilen alle zusammen haben, wie "
    f"viele davon ein Ereignis, und {_LEFT_OUT}",
    "rows before cuts": "wie viele Zeilen alle zusammen haben, bevor sie an den "
    "vereinbarten Zeiten geteilt werden; die anderen Summen gehen über die Teile",
    "information with columns times bins": "wie zuvor die Summen der Produkte, auch "
    "mit jeder Spalte mal der Nummer des Zeitraums",
    "score with columns times bins": "wie zuvor die Summen der Abstände, auch mit "
    "diesen Spalten",
    "output less demand": "was alle Erzeuger bei diesem Preis mindestens liefern, "
    "weniger aller Nachfrage",
    "further output at that price": "wie viel mehr alle zusammen genau zu diesem Preis "
    "anbieten",
    "its slope": "wie viel mehr alle bei einem um eins höheren Preis liefern, soweit "
    "sie zwischen ihren Grenzen sind",
    "output less demand in each period": "für jeden Zeitraum, was alle Erzeuger und "
    "Speicher bei den Preisen dieser Runde liefern, weniger aller Nachfrage",
    "total cost": "was alle Erzeuger bei diesem Preis zusammen kosten, weniger dem "
    "Wert der Kaufgebote",
    "coefficients of the costs": "für jeden Koeffizienten der Kosten die Summe über "
    "alle Mitglieder",
    "totals of the cells that enough guests filled": "für jedes Feld, das genügend "
    "Gäste ausfüllten, die Summe ihrer Angaben; nach anderen Feldern wird nicht "
    "gefragt",
}
# What one kind of question leaves open.
LIMITS: Mapping[str, str] = {
    GENERATORS: "Kosten und Grenzen von Erzeugern zeigen sich darin, wie sich die "
    "Summen mit dem Preis ändern: die aller anderen zusammen, und die eines Mitglieds, "
    "wo in einem Preisbereich nur dessen Menge sich ändert; wer die Preise wählte, "
    "kann den ersten, der versucht wird (ihre Mitte), auf den Preis einer Stufe gelegt "
    "haben und erfährt dann deren Menge",
    FLEETS: "Kosten, Grenzen und Rampen von Erzeugern, und Speicher, zeigen sich "
    "darin, wie sich die Summen mit den Preisen ändern: die aller anderen zusammen, "
    "und die eines Mitglieds, wo in einem Preisbereich nur dessen Menge sich ändert; "
    "verborgen ist, wie sich die Nachfrage verteilt",
    POLES: "Summen bei mehreren Werten von theta hängen davon ab, wie viele Zeilen "
    "jedes Mitglied hat: jedes Mitglied kann die Zeilenzahl aller anderen ausrechnen, "
    "ohne Namen (8 von 8 Versuchen bei 16 ehrlichen Mitgliedern); bei wenigen "
    "ehrlichen Mitgliedern auch die Summen ihrer Spalten, bei mehr lassen sie sich "
    "eingrenzen, am meisten die des kleinsten und des größten. Ein wiederholter Lauf "
    "verrät mehr, und "
    f"die Ledger zählen ihn. Weniger als {2 * PARTIES_EACH} ehrliche Mitglieder "
    f"werden abgelehnt, und {PARTIES_EACH} mehr sind es für jede zufällige Steigung, "
    "außer site_terms ist erlaubt",
    FEW_STUDIES: "jede Studie hat zwei Zahlen, und ein Lauf gibt sechs Summen davon "
    "frei: sind alle Studien bis auf drei bekannt, lassen sich diese drei ausrechnen, "
    "zwei davon schon nach der ersten Runde. Vier oder mehr Studien sind durch einen "
    "Lauf nicht bestimmt, aber unter Umständen durch mehrere, in denen jemand andere "
    "Daten hat: die Ledger zählen jeden Lauf und lehnen einen ab, der weniger "
    "unbekannte Zahlen als Summen ließe",
    REBUILT: "diese Anpassung gibt exakte Summen an mehreren Stellen frei. Sind "
    "Spalten Kategorien oder ganze Zahlen, können diese Summen bestimmen, wie viele "
    "Zeilen jede Kombination von Werten haben: Gitterreduktion rekonstruierte die "
    "ganze Altersspalte hinter einer logistischen Anpassung von 300 Zeilen bei 3 "
    "ehrlichen Mitgliedern in 20 von 20 Versuchen. Noch verhindert das keine Regel",
    FRACTIONS: "was ein Mitglied abzieht, ist ein Bruch seiner Zeilenzahl: bei einer "
    "Spalte mit wenigen Werten, etwa 0 und 1, kann das Durchprobieren aller Zahlen "
    "verraten, wie viele Zeilen ein Mitglied hat, und mit welchem Wert. Verlangt sind "
    "daher so viele ehrliche Mitglieder, dass sie mehr solche Zahlen haben als die "
    "Summen Stellen, außer bei site_terms = true; das ist gezählt und nicht bewiesen",
}
# Where a table with a missing value takes no part.
ZERO_HERE: Mapping[str, str] = {
    "rows, and rows left out": "die zweite ist hier immer 0",
    "rows, parties, and rows left out": "die dritte ist hier immer 0",
    "rows left out": "hier immer 0",
}


def sums_told(found: SumFacts, language: Language) -> tuple[str, ...]:
    """Return each kind of sum of a round in words, with how many there are."""
    told = _german if language == "de" else _english
    return tuple(
        f"{count}: {told(name, found)}" for name, count in found.names.items() if count
    )


def _english(name: str, found: SumFacts) -> str:
    return ENGLISH.get(name, found.told[name])


def _german(name: str, found: SumFacts) -> str:
    told = GERMAN[name.removesuffix(FOLDS)]
    if name.endswith(FOLDS):
        told = (
            "einmal für jeden Teil der Zeilen, mit den Zeilen außerhalb als allen; 0, "
            f"wo das Modell dazu gefunden ist: {told}"
        )
    if found.drops or name not in ZERO_HERE:
        return told
    return (
        f"{told}; {ZERO_HERE[name]}, denn eine Tabelle mit einem fehlenden Wert nimmt "
        "nicht teil"
    )
