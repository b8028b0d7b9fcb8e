// Every sentence that a guest reads, in English and in German, from one catalogue.
//
// A word in braces stands for something that is filled in. Both languages have the same
// sentences with the same gaps; a test compares them.

const CATALOGUE = {
  en: {
    skip: "Skip to the survey",
    language: "Language",
    asks: "Asked by {names}.",
    closes: "Open until {date}; a member closes it.",
    what_title: "What happens to your numbers",
    what_split:
      "Your numbers are split into masked pieces here, in this browser; a piece by itself is random digits.",
    what_sealed:
      "Each of the {count} delegates ({names}) gets one sealed piece that only this delegate can open.",
    what_totals:
      "What becomes known is who takes part, how many guests filled each cell, and the totals of cells that enough guests have filled: at least {minimum}.",
    what_empty:
      "Which cells you leave empty is not hidden: the host and all delegates see it, and that it was you; other guests do not. If you would rather not show it, type 0: that counts as a number.",
    what_empty_seen:
      "Which cells you leave empty is not hidden: the host and all delegates see it, and that it was you; other guests do not. 0 is not in the range that is asked for, so an empty cell cannot be disguised.",
    what_trust:
      "Whoever serves this page could change it: use the saved file, and compare its hash with the one in your invitation. Whoever sent you code and hash could have made both: ask a second delegate for the hash, which is the same for all guests.",
    what_link: "Save the file",
    what_file:
      "You have opened the saved file: its SHA-256 hash should be the one in your invitation, and the one that a second delegate tells you. Whoever sent you code and hash could have made both.",
    more_title: "What is not hidden, and the digest of the survey",
    what_hidden:
      "Up to {tolerate} of the delegates who work together, with all guests whom they invited and {guests} others, learn no more of your numbers than the totals over all honest guests say, unless they break the encryption. A total comes out only of a cell that at least {honest} honest guests have filled.",
    what_hidden_outside:
      "Whoever is no delegate, with {guests} guests, learns no more of your numbers than the totals over all honest guests say, unless the encryption is broken. A total comes out only of a cell that at least {honest} honest guests have filled.",
    what_more:
      "If more than {tolerate} delegates work together, totals over fewer guests may become known to them, even your numbers alone. All delegates together can open the numbers of everybody.",
    what_not:
      "That you take part is not hidden, nor which cells you leave empty. Who invited you made your code and can answer in your name. All this is promised against delegates who keep to what was agreed; one that sent you to a page of its own could read what you type there. Nobody keeps account for you of what other surveys ask.",
    digest: "Digest of the survey",
    code_title: "1. Your invitation code",
    code_label: "Invitation code (28 characters)",
    code_hint:
      "Capital or small letters, with or without hyphens. The code stays in this browser.",
    code_button: "Continue",
    code_empty: "Type the code of your invitation.",
    code_letter:
      "“{letter}” does not occur in codes. They have digits and letters, without U.",
    code_length: "A code has 28 characters without hyphens; here are {found}.",
    code_typo:
      "This is no code: one of its characters is mistyped. Compare it with your invitation.",
    code_unknown:
      "This code is not invited to this survey. Is it the code of another survey?",
    numbers_title: "2. Your numbers",
    answering: "You answer as {name}.",
    numbers_hint:
      "Every cell is a whole multiple of {unit}, from {low} to {high}. Leave a cell empty if you have no number for it.",
    numbers_zero: "0 is a number.",
    numbers_keys: "Enter goes to the cell below. You can paste cells of a spreadsheet.",
    correction:
      "Number {number} has already been sent with this code. What you send now replaces it, as number {next}.",
    sign_title: "Decimal sign in what you type, paste or upload",
    sign_ask: "ask where there are two readings",
    sign_comma: "comma: 1.234,5",
    sign_point: "point: 1,234.5",
    upload_label: "Fill the table from a file (CSV, TSV or XLSX, up to 1 MB)",
    upload_hint:
      "As many rows and columns as the table, or with its names in the first row and column. The file is read here and not sent.",
    uploaded: "The table holds the numbers of {file} now. Look at them before you go on.",
    pasted: "{count} cells were pasted.",
    table_caption: "Numbers by row and column",
    check_button: "Check the numbers",
    clear_button: "Empty the table",
    cleared: "The table is empty.",
    problems: "{count} cells cannot be sent yet. Nothing has been sealed.",
    problems_one: "One cell cannot be sent yet. Nothing has been sealed.",
    problems_more: "and {count} more, marked in the table",
    at_cell: "{row}, {column}: {problem}",
    number_long: "More than 40 characters is no number of this table.",
    number_percent:
      "A percent sign: write the number that is asked for, not a percentage.",
    number_brackets:
      "Brackets can mean a negative number or a remark: write a minus sign, or no brackets.",
    number_dash:
      "A dash alone can mean nothing or zero: leave the cell empty or write a number.",
    number_exponent: "Write the number out, without exponent.",
    number_not:
      "“{text}” is no number: write digits, a minus sign and a decimal sign only.",
    number_grouped:
      "“{text}” cannot be read: groups have three digits, after the decimal sign there are no groups.",
    number_sign:
      "“{text}” does not go with the decimal sign that is chosen above the table.",
    number_two:
      "“{text}” can be {first} or {second}: choose the decimal sign above the table.",
    number_multiple: "{text} is not a whole multiple of {unit}.",
    number_low: "{text} is less than {low}, the least that is asked for.",
    number_high: "{text} is more than {high}, the most that is asked for.",
    file_large: "The file has {size} kB; at most {most} kB are read. Nothing was read.",
    file_binary: "This is no text and no XLSX file. Save the table as CSV or XLSX.",
    file_old:
      "This is an old or encrypted Excel file. Save it as CSV, or as XLSX without a password.",
    file_broken: "The XLSX file cannot be read. Save the table as CSV.",
    file_sheets:
      "The file has {count} sheets. Save the one with the table as a file of its own.",
    file_unpack:
      "This browser cannot unpack XLSX files. Save the table as CSV.",
    file_failed: "The file could not be read. Was it moved or is it open elsewhere?",
    grid_shape:
      "Expected {rows} rows and {columns} columns of numbers, with or without their names; found {found_rows} rows and {found_columns} columns.",
    grid_names:
      "Names in the file do not match the table. Missing: {missing}. Not known: {extra}.",
    paste_room:
      "{rows} × {columns} cells were copied; from this cell there is room for {room_rows} × {room_columns}.",
    confirm_title: "3. Read once more, then send",
    confirm_filled: "{filled} of {cells} cells are filled; empty: {empty}.",
    confirm_none:
      "Every cell is empty: you would take part without a number in any total.",
    confirm_empty:
      "Which cells are empty below, the host and all delegates see, under your name. Go back and type 0 where you would rather not show that.",
    confirm_empty_seen:
      "Which cells are empty below, the host and all delegates see, under your name. 0 is not in the range that is asked for, so this cannot be disguised.",
    confirm_send:
      "When you send, the numbers are split and sealed here; only masked and sealed pieces leave the browser, and which cells are filled ({size} kB).",
    confirm_number: "This will be your number {number}.",
    confirm_caption: "Your numbers as they were read",
    empty: "empty",
    back_button: "Change",
    send_button: "Seal and send",
    send_correction: "Seal and send as correction number {number}",
    asking: "Asking the host what it has from you ...",
    sealing: "Sealing ...",
    sending: "Sending ...",
    host_away:
      "The host cannot be reached. Nothing has been sealed or sent; your numbers are still here. Try again when you are online.",
    host_later:
      "The host cannot be reached at the moment. You can go on; it is asked again before anything is sealed.",
    meanwhile:
      "Meanwhile number {number} has arrived with your code, from another tab or computer. If yours is right, send it as a correction, number {next}.",
    sent_title: "4. Sending and receipt",
    sent: "Your submission has arrived: the host has the same digest.",
    sent_other:
      "The host answers with another digest than that of your submission. Keep this receipt and tell a member other than the host.",
    unsent:
      "Sealed, but not confirmed by the host: it could not be reached. What was sealed is kept in this tab; send it again when you are online.",
    unsent_found:
      "In this tab there is a sealed submission that the host has not confirmed. Send it again; it is the same to the last byte.",
    refused: "The host did not take it: {answer}",
    refused_status: "it answered with status {status}.",
    closed: "The survey is closed: the host takes nothing more.",
    busy: "The host cannot take it at the moment. Send it again in a minute.",
    receipt_survey: "Survey",
    receipt_guest: "Guest",
    receipt_number: "Number",
    receipt_digest: "Digest of your submission",
    receipt_bytes: "Size in bytes",
    receipt_compare:
      "After closing, the set of the survey has this line if your numbers are in the totals. Ask a member for it, not only the host:",
    receipt_save: "Save the receipt",
    receipt_head: "Receipt of a veilsum survey",
    again_button: "Send again (the same bytes)",
    correct_button: "Correct my numbers",
    again_same: "Sent again, the same bytes. The host has the same digest.",
    correct_code:
      "Type your code to correct what was sent; the numbers are not kept anywhere but in the tab in which you typed them.",
    broken_survey: "The survey cannot be read: {what}. Ask who invited you.",
    no_survey: "The survey could not be loaded. Are you online? Load the page again.",
    unsafe_page:
      "Browsers do not seal on pages without https. Ask the host for an https address, or open the saved file.",
    old_browser:
      "This browser lacks what sealing needs (Ed25519 and X25519 in WebCrypto). Take a current Firefox, Chrome, Edge or Safari.",
    unexpected: "Something went wrong here, and nothing was sent: {what}",
    made_by: "Made with veilsum. This page asks nobody but the host and sets no cookie.",
  },
  de: {
    skip: "Zur Umfrage springen",
    language: "Sprache",
    asks: "Umfrage von {names}.",
    closes: "Offen bis {date}; ein Mitglied schließt die Umfrage.",
    what_title: "Was mit Ihren Zahlen geschieht",
    what_split:
      "Ihre Zahlen werden hier, in diesem Browser, in verdeckte Teile zerlegt; ein Teil für sich besteht aus Zufallsziffern.",
    what_sealed:
      "Jeder der {count} Delegierten ({names}) erhält einen versiegelten Teil, den nur er öffnen kann.",
    what_totals:
      "Bekannt wird, wer teilnimmt, wie viele Gäste jedes Feld ausgefüllt haben, und die Summen der Felder, die genügend Gäste ausgefüllt haben: mindestens {minimum}.",
    what_empty:
      "Welche Felder Sie leer lassen, bleibt nicht verborgen: Der Gastgeber und alle Delegierten sehen es, und dass Sie es waren; andere Gäste nicht. Wenn Sie es nicht zeigen möchten, geben Sie 0 ein: Das zählt als Zahl.",
    what_empty_seen:
      "Welche Felder Sie leer lassen, bleibt nicht verborgen: Der Gastgeber und alle Delegierten sehen es, und dass Sie es waren; andere Gäste nicht. 0 liegt nicht im Bereich, nach dem gefragt ist; ein leeres Feld lässt sich also nicht verdecken.",
    what_trust:
      "Wer diese Seite ausliefert, könnte sie ändern: Nehmen Sie die gespeicherte Datei und vergleichen Sie deren Prüfsumme mit der in Ihrer Einladung. Wer Ihnen Code und Prüfsumme schickte, könnte beides selbst gemacht haben: Fragen Sie einen zweiten Delegierten nach der Prüfsumme; sie ist für alle Gäste dieselbe.",
    what_link: "Datei speichern",
    what_file:
      "Sie haben die gespeicherte Datei geöffnet: Ihre SHA-256-Prüfsumme sollte die aus Ihrer Einladung sein und die, die ein zweiter Delegierter Ihnen nennt. Wer Ihnen Code und Prüfsumme schickte, könnte beides selbst gemacht haben.",
    more_title: "Was nicht verborgen bleibt, und die Prüfsumme der Umfrage",
    what_hidden:
      "Bis zu {tolerate} der Delegierten, die sich zusammentun, mit allen Gästen, die sie eingeladen haben, und {guests} weiteren, erfahren nicht mehr über Ihre Zahlen, als die Summen über alle ehrlichen Gäste sagen, solange die Verschlüsselung hält. Eine Summe kommt nur von einem Feld heraus, das mindestens {honest} ehrliche Gäste ausgefüllt haben.",
    what_hidden_outside:
      "Wer nicht zu den Delegierten gehört, auch mit {guests} Gästen zusammen, erfährt nicht mehr über Ihre Zahlen, als die Summen über alle ehrlichen Gäste sagen, solange die Verschlüsselung hält. Eine Summe kommt nur von einem Feld heraus, das mindestens {honest} ehrliche Gäste ausgefüllt haben.",
    what_more:
      "Tun sich mehr als {tolerate} Delegierte zusammen, können ihnen Summen über weniger Gäste bekannt werden, sogar Ihre Zahlen allein. Alle Delegierten zusammen können die Zahlen aller öffnen.",
    what_not:
      "Dass Sie teilnehmen, bleibt nicht verborgen, auch nicht, welche Felder Sie leer lassen. Wer Sie eingeladen hat, hat Ihren Code gemacht und kann in Ihrem Namen antworten. All das gilt gegenüber Delegierten, die sich an das Vereinbarte halten; wer Sie auf eine eigene Seite schickt, könnte lesen, was Sie dort eintippen. Niemand führt für Sie Buch darüber, was andere Umfragen fragen.",
    digest: "Prüfsumme der Umfrage",
    code_title: "1. Ihr Einladungscode",
    code_label: "Einladungscode (28 Zeichen)",
    code_hint:
      "Groß oder klein, mit oder ohne Bindestriche. Der Code bleibt in diesem Browser.",
    code_button: "Weiter",
    code_empty: "Geben Sie den Code aus Ihrer Einladung ein.",
    code_letter:
      "„{letter}“ kommt in Codes nicht vor. Sie haben Ziffern und Buchstaben, ohne U.",
    code_length: "Ein Code hat ohne Bindestriche 28 Zeichen; hier sind es {found}.",
    code_typo:
      "Das ist kein Code: Ein Zeichen ist vertippt. Vergleichen Sie ihn mit Ihrer Einladung.",
    code_unknown:
      "Dieser Code ist zu dieser Umfrage nicht eingeladen. Gehört er zu einer anderen?",
    numbers_title: "2. Ihre Zahlen",
    answering: "Sie antworten als {name}.",
    numbers_hint:
      "Jedes Feld ist ein ganzes Vielfaches von {unit}, von {low} bis {high}. Haben Sie zu einem Feld keine Zahl, lassen Sie es leer.",
    numbers_zero: "0 ist eine Zahl.",
    numbers_keys:
      "Die Eingabetaste führt ins Feld darunter. Sie können Zellen einer Tabelle einfügen.",
    correction:
      "Mit diesem Code ist schon Nummer {number} gesendet worden. Was Sie jetzt senden, ersetzt sie, als Nummer {next}.",
    sign_title: "Dezimalzeichen in dem, was Sie tippen, einfügen oder hochladen",
    sign_ask: "nachfragen, wo zwei Lesarten möglich sind",
    sign_comma: "Komma: 1.234,5",
    sign_point: "Punkt: 1,234.5",
    upload_label: "Tabelle aus einer Datei füllen (CSV, TSV oder XLSX, bis 1 MB)",
    upload_hint:
      "So viele Zeilen und Spalten wie die Tabelle, oder mit deren Namen in der ersten Zeile und Spalte. Die Datei wird hier gelesen und nicht gesendet.",
    uploaded:
      "In der Tabelle stehen nun die Zahlen aus {file}. Sehen Sie sie an, bevor Sie weitergehen.",
    pasted: "{count} Felder wurden eingefügt.",
    table_caption: "Zahlen nach Zeile und Spalte",
    check_button: "Zahlen prüfen",
    clear_button: "Tabelle leeren",
    cleared: "Die Tabelle ist leer.",
    problems: "{count} Felder können so nicht gesendet werden. Noch ist nichts versiegelt.",
    problems_one: "Ein Feld kann so nicht gesendet werden. Noch ist nichts versiegelt.",
    problems_more: "und {count} weitere, in der Tabelle markiert",
    at_cell: "{row}, {column}: {problem}",
    number_long: "Mehr als 40 Zeichen sind keine Zahl dieser Tabelle.",
    number_percent:
      "Ein Prozentzeichen: Schreiben Sie die Zahl, nach der gefragt ist, keinen Prozentsatz.",
    number_brackets:
      "Klammern können eine negative Zahl oder eine Bemerkung bedeuten: Schreiben Sie ein Minuszeichen, oder keine Klammern.",
    number_dash:
      "Ein Strich allein kann nichts oder null bedeuten: Lassen Sie das Feld leer oder schreiben Sie eine Zahl.",
    number_exponent: "Schreiben Sie die Zahl aus, ohne Exponenten.",
    number_not:
      "„{text}“ ist keine Zahl: Schreiben Sie nur Ziffern, Minuszeichen und Dezimalzeichen.",
    number_grouped:
      "„{text}“ ist nicht zu lesen: Gruppen haben drei Ziffern, nach dem Dezimalzeichen gibt es keine.",
    number_sign:
      "„{text}“ passt nicht zu dem Dezimalzeichen, das über der Tabelle gewählt ist.",
    number_two:
      "„{text}“ kann {first} oder {second} sein: Wählen Sie über der Tabelle das Dezimalzeichen.",
    number_multiple: "{text} ist kein ganzes Vielfaches von {unit}.",
    number_low: "{text} ist kleiner als {low}, das Kleinste, wonach gefragt ist.",
    number_high: "{text} ist größer als {high}, das Größte, wonach gefragt ist.",
    file_large:
      "Die Datei hat {size} kB; gelesen werden höchstens {most} kB. Es wurde nichts gelesen.",
    file_binary:
      "Das ist weder Text noch eine XLSX-Datei. Speichern Sie die Tabelle als CSV oder XLSX.",
    file_old:
      "Das ist eine alte oder verschlüsselte Excel-Datei. Speichern Sie sie als CSV, oder als XLSX ohne Kennwort.",
    file_broken: "Die XLSX-Datei ist nicht zu lesen. Speichern Sie die Tabelle als CSV.",
    file_sheets:
      "Die Datei hat {count} Blätter. Speichern Sie das mit der Tabelle als eigene Datei.",
    file_unpack:
      "Dieser Browser kann XLSX-Dateien nicht entpacken. Speichern Sie die Tabelle als CSV.",
    file_failed:
      "Die Datei konnte nicht gelesen werden. Wurde sie verschoben, oder ist sie anderswo offen?",
    grid_shape:
      "Erwartet werden {rows} Zeilen und {columns} Spalten mit Zahlen, mit ihren Namen oder ohne; gefunden wurden {found_rows} Zeilen und {found_columns} Spalten.",
    grid_names:
      "Namen in der Datei passen nicht zur Tabelle. Es fehlen: {missing}. Unbekannt: {extra}.",
    paste_room:
      "Kopiert wurden {rows} × {columns} Felder; ab diesem Feld ist Platz für {room_rows} × {room_columns}.",
    confirm_title: "3. Noch einmal lesen, dann senden",
    confirm_filled: "{filled} von {cells} Feldern sind ausgefüllt; leer: {empty}.",
    confirm_none:
      "Alle Felder sind leer: Sie nähmen teil, ohne dass eine Zahl von Ihnen in eine Summe eingeht.",
    confirm_empty:
      "Welche Felder unten leer sind, sehen der Gastgeber und alle Delegierten, mit Ihrem Namen. Gehen Sie zurück und geben Sie 0 ein, wo Sie das nicht zeigen möchten.",
    confirm_empty_seen:
      "Welche Felder unten leer sind, sehen der Gastgeber und alle Delegierten, mit Ihrem Namen. 0 liegt nicht im Bereich, nach dem gefragt ist; das lässt sich also nicht verdecken.",
    confirm_send:
      "Wenn Sie senden, werden die Zahlen hier zerlegt und versiegelt; nur verdeckte und versiegelte Teile verlassen den Browser, und welche Felder ausgefüllt sind ({size} kB).",
    confirm_number: "Es wird Ihre Nummer {number}.",
    confirm_caption: "Ihre Zahlen, wie sie gelesen wurden",
    empty: "leer",
    back_button: "Ändern",
    send_button: "Versiegeln und senden",
    send_correction: "Als Berichtigung Nummer {number} versiegeln und senden",
    asking: "Der Gastgeber wird gefragt, was er von Ihnen hat ...",
    sealing: "Wird versiegelt ...",
    sending: "Wird gesendet ...",
    host_away:
      "Der Gastgeber ist nicht zu erreichen. Es ist nichts versiegelt und nichts gesendet; Ihre Zahlen stehen noch hier. Versuchen Sie es noch einmal, wenn Sie online sind.",
    host_later:
      "Der Gastgeber ist gerade nicht zu erreichen. Sie können weitermachen; bevor etwas versiegelt wird, wird er noch einmal gefragt.",
    meanwhile:
      "Inzwischen ist mit Ihrem Code Nummer {number} angekommen, aus einem anderen Fenster oder von einem anderen Rechner. Sind Ihre Zahlen die richtigen, senden Sie sie als Berichtigung, Nummer {next}.",
    sent_title: "4. Senden und Quittung",
    sent: "Ihre Einsendung ist angekommen: Der Gastgeber hat dieselbe Prüfsumme.",
    sent_other:
      "Der Gastgeber nennt eine andere Prüfsumme als die Ihrer Einsendung. Heben Sie diese Quittung auf und sagen Sie es einem anderen Mitglied.",
    unsent:
      "Versiegelt, aber vom Gastgeber nicht bestätigt: Er war nicht zu erreichen. Das Versiegelte bleibt in diesem Fenster; senden Sie es noch einmal, wenn Sie online sind.",
    unsent_found:
      "In diesem Fenster liegt eine versiegelte Einsendung, die der Gastgeber nicht bestätigt hat. Senden Sie sie noch einmal; sie ist bis aufs letzte Byte dieselbe.",
    refused: "Der Gastgeber hat sie nicht angenommen: {answer}",
    refused_status: "Er antwortete mit Status {status}.",
    closed: "Die Umfrage ist geschlossen: Der Gastgeber nimmt nichts mehr an.",
    busy: "Der Gastgeber kann sie gerade nicht annehmen. Senden Sie sie in einer Minute noch einmal.",
    receipt_survey: "Umfrage",
    receipt_guest: "Gast",
    receipt_number: "Nummer",
    receipt_digest: "Prüfsumme Ihrer Einsendung",
    receipt_bytes: "Größe in Bytes",
    receipt_compare:
      "Nach dem Schließen enthält die Liste der Umfrage diese Zeile, wenn Ihre Zahlen in den Summen sind. Fragen Sie ein Mitglied danach, nicht nur den Gastgeber:",
    receipt_save: "Quittung speichern",
    receipt_head: "Quittung einer veilsum-Umfrage",
    again_button: "Noch einmal senden (dieselben Bytes)",
    correct_button: "Meine Zahlen berichtigen",
    again_same: "Noch einmal gesendet, dieselben Bytes. Der Gastgeber hat dieselbe Prüfsumme.",
    correct_code:
      "Geben Sie Ihren Code ein, um Gesendetes zu berichtigen; die Zahlen stehen nirgends als in dem Fenster, in dem Sie sie eingegeben haben.",
    broken_survey: "Die Umfrage ist nicht zu lesen: {what}. Fragen Sie, wer Sie eingeladen hat.",
    no_survey:
      "Die Umfrage konnte nicht geladen werden. Sind Sie online? Laden Sie die Seite neu.",
    unsafe_page:
      "Auf Seiten ohne https versiegeln Browser nicht. Bitten Sie den Gastgeber um eine https-Adresse, oder öffnen Sie die gespeicherte Datei.",
    old_browser:
      "Diesem Browser fehlt, was zum Versiegeln nötig ist (Ed25519 und X25519 in WebCrypto). Nehmen Sie Firefox, Chrome, Edge oder Safari auf neuem Stand.",
    unexpected: "Hier ist etwas schiefgegangen, und es wurde nichts gesendet: {what}",
    made_by:
      "Mit veilsum gemacht. Diese Seite fragt niemanden als den Gastgeber und setzt kein Cookie.",
  },
};

export const LANGUAGES = Object.keys(CATALOGUE);

// A sentence of the catalogue, with what goes into its gaps; said in the reader's
// language only when it is shown, so that switching languages switches refusals too.
export class Refusal extends Error {
  constructor(word, gaps = {}) {
    super(say("en", word, gaps));
    this.word = word;
    this.gaps = gaps;
  }
}

// A decimal (whole / 10^places) for people: groups by narrow spaces, so that comma and
// point have one meaning each.
export function shown(decimal, language) {
  const negative = decimal.whole < 0n;
  const digits = String(negative ? -decimal.whole : decimal.whole).padStart(
    decimal.places + 1, "0",
  );
  const cut = digits.length - decimal.places;
  const before = digits.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const after = digits.slice(cut).replace(/0+$/, "");
  const sign = language === "de" ? "," : ".";
  return (negative ? "\u2212" : "") + before + (after && sign + after);
}

export function say(language, word, gaps = {}) {
  const sentence = CATALOGUE[language][word];
  if (sentence === undefined) throw new Error(`no sentence is called ${word}`);
  return sentence.replace(/\{(\w+)\}/g, (_, gap) => {
    if (!(gap in gaps)) throw new Error(`${word} needs ${gap}`);
    const filling = gaps[gap];
    if (filling instanceof Refusal) return say(language, filling.word, filling.gaps);
    return typeof filling === "object" ? shown(filling, language) : String(filling);
  });
}

// What a test compares: the sentences of a language, by name.
export function sentences(language) {
  return { ...CATALOGUE[language] };
}

// The language to begin with, from what the browser asks for in order.
export function preferred(asked) {
  for (const tag of asked) {
    const language = tag.toLowerCase().split("-")[0];
    if (LANGUAGES.includes(language)) return language;
  }
  return "en";
}
