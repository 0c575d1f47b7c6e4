"""Detection of answers that decline: "I do not know", "not in the documents"."""

# ruff: noqa: RUF001  words of other scripts

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import Final
from unicodedata import normalize

from ragstone._util.variables import assigned
from ragstone._util.words import normalize_case, split_sentences

_LONGEST: Final = 400
"""Longer answers contain more than a refusal."""
OWN_REFUSALS: Final[ContextVar[tuple[str, ...]]] = ContextVar("ragstone_own_refusals", default=())
"""The user's own phrases (`answers.refusals`). A scorer keeps those of the context in which it is created."""

# The words of each language, as alternatives of regular expressions for text after case folding. A clause declines if
# it has one of `phrases`, or if it has one of `negations` and with it `speaker` (the application: "I do not know"), one
# of `sources` and what it `says` ("the documents do not mention it"), or a possibility to find out (`finds`: "it cannot
# be determined"). It does not if it has one of `exceptions` (conditions, clauses about other people), or names a source
# as `evidence`. `replies` decline if they consist of nothing else. A reason after one of `ends` is not read. Of the
# clauses around one of `results` either may decline, and after one of `contrasts` an answer may follow. Sentences of
# `apologies` say nothing. By the words in `common` languages of one script are distinguished. A line that begins with
# two spaces continues the last one.

_ENGLISH: Final = r"""
negations: no|not|none|nothing|nowhere|neither|never|without|cannot|\w+n't|dont|cant|doesnt|lack(?:s|ing)?|missing|
  silent|decline|insufficient|inadequate|unable|unclear|unknown|unanswered|unspecified|unsure|uncertain|unavailable|
  unaware|unfamiliar|absent|outside|beyond|only|need|unanswerable|0 results|dunno|beats|stumped|silent
speaker: i(?:'m|'ve|'d|'ll)?+(?! (?:am )?(?:afraid|sorry|glad|regret|apolog\w+|do not think|don't think|(?:would|
  do) ?(?:not|n't) (?:believe|recommend|suggest|expect))\b)|to me|beats me|dunno|has me stumped  sources: contexts?|
  (?:documents?|passages?|texts?|excerpts?|extracts?|snippets?|articles?|manuals?|handbook|transcripts?)(?! (?:field|
  box|message|editor|format))|sources|source (?:material|text)s?|documentation|search(?: results)?|faq|summary|notes|
  chapter|knowledge base|guidebook|leaflet|materials?|help cent(?:er|re)|(?:provided|given|retrieved|uploaded|
  supplied|available|attached|linked) (?:\w+ ){0,2}(?:files?|pages?|information|content|data|sections?|records?|
  policy|guide|list)|(?:information|content|data|pages?|files?|bulletin) (?:you )?(?:provided|given|retrieved|
  supplied|linked|i|that i)  says: mention(?:s|ed)?|says?|states?|stated|specif(?:y|ies|ied)|contains?|includes?|
  included|provides?|gives?|(?:never|not|\w+n't) (?:given|provided|available|found|report(?:ed)?|have an entry)|
  covers?|covered|address(?:es|ed)?|discuss(?:es|ed)?|describes?|described|explains?|explained|lists?|listed|
  disclos\w+|reveals?|revealed|indicates?|identif(?:y|ies|ied)|names?|named|details?|detailed|references?|information|
  report|lacks?|silent|missing|unclear|unspecified|unanswered|insufficient|enough|sufficient|part of|outside|
  go(?:es)? into|refers?|touch(?:es)? on|speaks?|talks?|documented|clarif\w+|anything|answer|recorded|appears?|
  returned|skips?|leaves out  finds: (?:(?:can ?not|can't|could not|couldn't|not|n't) be|possible to|impossible to|
  way (?:to|of)) (?:determin\w+|answer(?:ed)?|establish(?:ed)?|infer(?:red)?|conclude[d]?|te[l]l(?:ing)?|identify|
  identified|ascertain(?:ed)?|confirm(?:ed)?|verif(?:y|ied)|resolved?|know(?:n|ing)?|stated|derived|generated|found|
  located)|question (?:falls|is|lies)|^(?:this|that|it|the answer)(?: is|'s| isn't| remains)(?: not|
   n't)?(?: \w+ly)? (?:unclear|unknown|unspecified|clear|known|specified|mentioned|stated|covered|possible)|
  (?:we (?:\w+ ){0,3}(?:have|find|found|hold|see)|there(?:'s| is| are| was| were| isn't| aren't|
   wasn't))(?: \w+){0,6} (?:information|info|details?|data|answers?|mention|references?|results?|match(?:es)?|
  documentation|articles?|specifics|content)  phrases: ^(?:no|insufficient|not enough)(?: \w+){0,2} (?:information|
  info|details?|data|answers?|mention|references?|results?|match(?:es)?|documentation|articles?|specifics|
  content)(?:$| (?:is|was|were|are|can|could|about|on|for|in|to|available|found|regarding|provided|exists?))|
  \b(?:insufficient|not enough) (?:information|context)\b|^not (?:found|available|mentioned) in\b|\b(?:is|was|are|
  were|n't|not|never)(?: \w+ly)? (?:mentioned|specified|disclosed|documented)$|\bno idea\b|\bcame up empty\b|
  \bno way of (?:know|te[l]l)ing\b|^(?:cannot|can't|could not|unable to) (?:answer|determine|find|te[l]l|say|locate)\b
replies: no[- _](?:response|answer)|empty response|unknown|un-?answerable|not (?:answerable|found|available|sure|
  enough information)|n/?a|insufficient[ _](?:context|information)|unclear|unsure  evidence: based on|according to|
  as per|as (?:stated|described|mentioned|noted) in|from  exceptions: ^(?:if|when|whenever|unless|where|users? who|
  those who|anyone who|applicants? who|people who|null)\b|\byou (?:can|can't|cannot|do|don't|may|must|should|need|
  will|won't|are|have|could|might)\b(?! (?:provided|supplied|uploaded|shared|linked|asked|mentioned|attached|
  requested)\b)|^(?:no|yes)\b[,.;:] ?(?!i\b)  ends: because|which|as|since|until|given that
results: (?<!quite )(?<!not )so|therefore|hence|thus|leaving  contrasts: but|however|though|although|nevertheless
apologies: i|am|i'm|we|are|we're|very|so|but|sorry|apolog\w+|unfortunately|regrettably|hi|hello|dear|hmm+|thanks?|
  thank you|for|that's|that|great|good|question|reaching out|your|the|confusion|about|to hear|asking|answer|result|
  afraid|inconvenience|interesting  common: no the of to in is a and for that it i not was are on with this be as or
"""
_GERMAN: Final = r"""
negations: nicht|nichts|kein\w*|nie|nirgends|ohne|fehl\w+|unklar|unbekannt|unzureichend|offen|überfragt|
  ausschliesslich|schweig\w+|fündig|nur|weder|leider  speaker: ich|mir|mich  sources: kontexte?s?|(?:text|quell|
  dokument|unterlag|passag|abschnitt|auszüg|textausz|artikel|handbuch|wissensdatenbank|wissensbasis|material|
  packungsbeilage|beipackzettel|kapitel|rezept|datenblatt|auszug|datei|inhalt|treffer|suchergebnis|beitrag|anleitung|
  dokumentation|informationen)\w*  says: steht|stehen|enth[aä]lt\w*|enthalten\w*|erwähn\w+|nenn\w+|genannt|gib\w*|
  geben|auskunft|angegeben|angaben?|informationen?|beschr[ei]+b\w*|hervor|hinterlegt|reich\w+|entnehmen|behandel\w+|
  aufgeführt|thematisier\w*|offen|fehlt|findet|vorhanden|sagt|liefer\w+|beantwort\w+|hinweis\w*|verzeichnet|
  eingegangen|antwort|schweig\w+|taucht|kein wort|mitgeteilt|fündig  finds: lässt sich|lassen sich|(?:feststellen|
  bestimmen|ermitteln|sagen|beantworten|ableiten|entnehmen|finden)$|kann\b.{0,80}\bbeantwortet|möglich|unmöglich|
  es liegen|liegen\b.{0,30}\bvor$|zu beantworten|beantwortbar  phrases: ^(?:dazu |hierzu |darüber |
  leider )*(?:es )?(?:gibt es |wurden? )?kein\w* (?:\w+ ){0,2}(?:information\w*|angaben?|treffer|ergebnis\w*|
  antwort)\b(?:$| (?:gefunden|vorhanden|verfügbar|zu|über|dazu|darüber|enthalten))|\bkeine ahnung\b|\büberfragt\b|
  \bnirgends (?:erwähnt|genannt)|^(?:im|in den|in der) .{0,40}\bnicht (?:enthalten|gefunden|vorhanden)$|
  \bnicht (?:erwähnt|angegeben|genannt|beschrieben)$|\bfindet sich kein\b|^unklar\b  replies: nicht (?:beantwortbar|
  bekannt|gefunden)|keine (?:antwort|angabe|ahnung)|unbekannt|k\. ?a|weiss nicht  evidence: laut|gemäss|nach|zufolge|
  entsprechend|aufgrund  exceptions: ^(?:nein|ja)\b|^(?:wenn|falls|sofern|wer|sobald|antragsteller|personen)\b|
  \b(?:sie|du)\b(?=.{0,40}\b(?:nicht|kein))  ends: weil|da|denn  results: sodass|deshalb|daher|weshalb|also|folglich
contrasts: aber|jedoch|allerdings|doch|sondern  apologies: es tut mir leid|tut mir leid|leider|entschuldigung|bedaure|
  danke|hallo|guten tag|für|ihre|die|frage|antwort|gute|sorry|verzeihung
common: der die das in nicht ist zu den von im es ich mit auf dem ein eine keine und wird leider bitte
"""
_FRENCH: Final = r"""
negations: pas|aucune?s?|rien|jamais|ni|sans|non|impossible|insuffisant\w*|absente?s?|muets?|uniquement|introuvables?|
  difficile|seulement|ne saurais|ne puis|ne peux|malheureusement  speaker: je|j'\w+|me|m'\w+|moi|il m'est|
  nous n(?:e l)?'avons  sources: contextes?|documents?|textes?|extraits?|passages?|sources?|articles?|manuel|guide|
  notice|base de connaissances?|fichiers fournis|éléments|documentation|informations? (?:fournies?|disponibles?|
  données)|données (?:fournies|disponibles)|pages (?:récupérées|fournies)|fiche|recherche  says: précis\w+|
  mentionn\w+|indiqu\w+|contien\w+|figur\w+|dit|disent|parl\w+|fourni\w*|donn\w+|permet\w*|évoqu\w+|abord\w+|trait\w+|
  spécifi\w+|inclu\w+|apparaî\w+|explique\w*|trouve\w*|réponse|répond\w*|information\w*|mention|référence|cité\w*|
  absente?|nomm\w+|suffi\w+|insuffisant\w*|couvr\w+|couvert\w*|détail\w*|renseign\w+|révèl\w+|présente?
finds: (?:impossible|possible|permet\w*|peut|peux)(?: \w+)* (?:déterminer|répondre|savoir|dire|établir|affirmer|
  confirmer|identifier|trouver|conclure)|réponse impossible|déterminé\w*  phrases: ^(?:aucune?|
  pas d')(?: \w+){0,2} ?(?:information|résultat|réponse|donnée|mention|élément|article|document)\w*|
  ^réponse (?:inconnue|indisponible|introuvable)|^information\w* (?:absente|introuvable|non|indisponible|
  insuffisante)\w*|\b(?:il n'y a|il n'existe|n'avons|on ne trouve)\b.{0,30}\b(?:information|mention|article|donnée|
  réponse|détail|précision)\w*|\baucune idée\b|\bn'(?:est|a été|sont) (?:pas |nulle part |
  jamais )(?:\w+ment )?(?:précisée?s?|mentionnée?s?|indiquée?s?|spécifiée?s?)  replies: (?:pas|sans) de réponse|
  introuvable\b.*|non (?:précisée?|mentionnée?|indiquée?)\b.*|réponse non disponible|aucune? (?:réponse|information|
  idée|résultat)|inconnue?|non (?:précisé|mentionné|disponible|renseigné)e?  evidence: d'après|selon|conformément|
  suivant  exceptions: ^(?:non|oui)\b|^(?:si|s'il|lorsque|quand|ceux|celles|quiconque|toute personne|
  les (?:demandeurs|utilisateurs))\b|\bvous ne\b|\bvous n'  ends: car|parce|puisque  results: donc|alors|si bien
contrasts: mais|cependant|toutefois|néanmoins|pourtant  apologies: désolée?s?|je suis|navrée?|pardon|excusez-moi|
  malheureusement|je regrette|bonjour|merci|pour|votre|question|réponse|hélas
common: le la les de des et pas une un du est je dans que pour ne sur n'est qui aucune désolé
"""
_SPANISH: Final = r"""
negations: no|ni|se desconoce|silencio|ningun[oa]s?|ningún|nada|nunca|jamás|sin|tampoco|imposible|insuficientes?|
  ausente|desconozco|solo|sólo|falta\w*|ignoro|carezco  speaker: (?:no|ni|tampoco) (?:(?:lo|la|me|te|le|se|
  os) ){0,2}(?:\w+mente )?(?:sé|se\b(?=$|[.,;])|encuentro|encontré|tengo|puedo|pude|podría|dispongo|he\b|logr[oé]|
  conozco|sabría|veo|cuento|poseo|estoy|conseguí|consigo|hallo|hallé|soy capaz|recuerdo|localizo|localicé|dispongo)\b|
  desconozco|(?:solo|sólo|únicamente) (?:puedo|respondo)|me (?:falta|es imposible|resulta imposible)\w*|necesit(?:o|
  aría) más|ignoro|carezco de  sources: contextos?|documentos?|textos?|fragmentos?|pasajes?|extractos?|fuentes?|
  artículos?|manual|guía|prospecto|base de conocimientos?|archivos adjuntos|documentación|material(?:es)?|informe|
  receta|búsqueda|información (?:proporcionada|disponible|facilitada|dada|suministrada)|datos disponibles|
  páginas recuperadas|ficha  says: mencion\w+|indic\w+|contien\w+|figur\w+|dic\w+|habl\w+|proporcion\w+|ofrec\w+|
  permit\w+|abord\w+|trat\w+|especific\w+|inclu\w+|aparec\w+|explic\w+|encuentr\w+|respuesta|respond\w+|información|
  mención|referencia|consta\w*|señal\w+|suficient\w*|insuficient\w*|cubr\w+|detall\w+|recog\w+|aclar\w+|precis\w+|
  nombr\w+|alud\w+|describ\w+|aport\w+|revel\w+|está|dato  finds: (?:imposible|posible|puede|pueden|permite|se pudo|
  cabe)(?: \w+)* (?:determinar|responder\w*|saber|decir|establecer|afirmar|confirmar|identificar|encontrar|conocer|
  deducir)|(?:puede|pudo) (?:ser )?(?:respond|determin|contest)\w+  phrases: ^(?:lo siento,? )?(?:no (?:se (?:ha |
  han |ha )?(?:encontr|hall|localiz)\w+|hay|existe\w*|tenemos|contamos con|disponemos de)|ningun[oa]?|ningún|
  sin)(?: \w+){0,4}? (?:informaci|resultado|respuesta|dato|mención|artículo|detalle|referencia|coincidencia)\w*|
  ^ni idea\b|^se desconoce\b|^prefiero no (?:especular|contestar)|\bno (?:se|está|están|aparece\w*|viene|ha sido|
  fue) (?:\w+mente )?(?:mencion|indic|especific|detall|precis)\w+$|^respuesta no disponible  replies: ni idea(?:,.*)?|
  sin (?:respuesta|datos|información|resultados)|desconocid[oa]|no (?:disponible|consta|especificad[oa]|lo sé|sé|
  se sabe)|ni idea  evidence: según|de acuerdo con|conforme a|basándome en|con base en  exceptions: ^(?:no|sí)[,.;:]|
  ^(?:si|cuando|quien(?:es)?|los que|las que|aquellos|los usuarios|el testigo)\b|\b(?:usted|puedes|puede usted)\b
ends: porque|ya que|puesto|dado  results: por (?:lo )?tanto|así que|de modo que|de ahí  contrasts: pero|sin embargo|
  aunque|no obstante|sino  apologies: lo siento|lo sentimos|lamentablemente|desafortunadamente|disculp\w+|perdón|
  perdona|hola|gracias|por|su|tu|pregunta|la|respuesta|lamento|mucho
common: ese esa ni el la los las de en no que un una se y del por con para lo es su está ningún
"""
_PORTUGUESE: Final = r"""
negations: não|nenhum\w*|fora|nada|nunca|sem|nem|tampouco|impossível|insuficientes?|ausente|desconheço|só|somente|
  apenas|falta\w*|ignoro  speaker: não (?:(?:o|a|me|te|lhe|se|é) ){0,2}(?:sei|tenho|encontrei|encontro|posso|pude|
  consigo|consegui|localizei|disponho|vejo|conheço|faço|saberia|estou|possuo|poderia|achei|lembro|fui capaz|
  sou capaz)\b|desconheço|(?:só|somente|apenas) (?:posso|respondo)|posso (?:responder )?(?:apenas|só|somente)|
  eu (?:precisaria|preciso)|precis(?:o|aria) de mais|nos dados que tenho|me falta\w*  sources: contextos?|documentos?|
  textos?|trechos?|passagens|passagem|excertos?|fontes?|artigos?|manual|guia|bula|base de conhecimentos?|(?:arquivos|
  ficheiros) (?:enviados|fornecidos)|documentação|recortes|pesquisa|escritura|capítulo|diário|material|materiais|
  informações (?:fornecidas|disponíveis|dadas)|dados disponíveis|páginas recuperadas|ficha|reportage(?:m|ns)|regras
says: mencion\w+|indic\w+|cont[eé]m|contêm|figura\w*|diz\w*|fala\w*|forne\w+|permit\w+|abord\w+|trata\w*|especific\w+|
  inclu\w+|aparec\w+|explic\w+|encontra\w*|resposta|respond\w+|informaç\w+|menção|referência|consta\w*|traz\w*|
  suficient\w*|insuficient\w*|cobr\w+|detalh\w+|esclarec\w+|precis\w+|identific\w+|informa\w*|retorn\w+|conta|
  descrev\w+|apresent\w+|localizad\w+|está|revel\w+  finds: fora do âmbito|(?:impossível|possível|pode|podem|
  permite\w*|dá para|há como)(?: \w+)* (?:determin|respond|saber|dizer|estabelec|afirm|confirm|identific|encontr|
  conclu)\w*|(?:pode|pôde|podem) ser (?:respondid|determinad|confirmad)\w+  phrases: ^(?:infelizmente,? |
  desculpe,? )?(?:nenhum\w*|não (?:há|existe\w*|foi|foram|temos|dispomos de|encontramos)|ainda não temos|
  sem)(?: \w+){0,4}? (?:informaç|resultado|resposta|dado|menção|artigo|detalhe|referência|correspondência)\w*|
  \bnão faço ideia\b|\bnão (?:é|são|está|foi|consta|aparece)\w* (?:\w+mente )?(?:mencion|indic|especific|informad|
  detalh)\w+$|^resposta indisponível|^não foi encontrad  replies: sei lá(?:,.*)?|resposta (?:indisponível|
  não disponível)|sei lá|sem (?:resposta|dados|informações|informação)|desconhecid[oa]|não (?:disponível|consta|
  especificado|sei|informado)|indisponível  evidence: segundo|de acordo com|conforme|com base em|com base n[oa]s?
exceptions: ^(?:não|sim)[,.;:]|^(?:indica|significa)\b|^(?:se|quando|quem|aqueles|os usuários|caso)\b|\bvocê não\b
ends: porque|pois|já que  results: portanto|logo|daí|então|de modo que  contrasts: mas|porém|contudo|todavia|
  entretanto|no entanto|embora  apologies: desculp\w+|peço|lamento|lamentamos|infelizmente|sinto|muito|olá|oi|
  obrigad[oa]|pela|sua|pergunta|resposta|putz|perdão
common: o a os as de não que em um uma do da no na dos para com é se são nenhuma
"""
_RUSSIAN: Final = r"""
negations: не|нет|ни|выходит за рамки|ничего|нигде|без|недостаточно|отсутству\w+|неясно|невозможно|неизвестно|только|
  лишь|понятия|нельзя|затрудняюсь|никак\w+  speaker: я|мне|меня|мной|не (?:знаю|могу|нашел|нашёл|нашла|уверен\w*|
  располагаю|обладаю|имею|вижу|обнаружил\w*|удалось)|сказать не могу|ответить не могу|затрудняюсь|понятия не имею
sources: контекст\w*|документ\w*|текст\w*|отрыв\w+|фрагмент\w*|источник\w*|стат(?:ья|ье|ьи|ей)|руководств\w+|
  инструкци\w+|баз\w+ знаний|файл\w*|материал\w*|информаци\w+|сведени\w+|данны\w+|правил\w*|журнал\w*|карточк\w+|
  выписк\w+|рецепт\w*|поиск\w*|глав\w+|пассаж\w*  says: сказан\w*|указан\w*|упом\w+|содерж\w+|говорит\w*|привод\w+|
  раскры\w+|рассматрив\w+|описан\w*|описыва\w+|найден\w*|обнаруж\w+|недостаточно|отсутств\w+|ответ\w*|информаци\w+|
  позволя\w+|неясно|данных|сведений|нет|затраг\w+|касает\w*|называет\w*|нашлось|результат\w*|объясн\w+|освещ\w+|
  хватает|относит\w*|поясн\w+  finds: выходит за рамки|(?:невозможно|нельзя|не удалось|не получ\w+|
  не представляется возможным|нет возможности)\b.{0,60}\b(?:определить|ответить|установить|сказать|узнать|найти|
  выяснить)|(?:определить|ответить|установить|выяснить)\b.{0,40}\b(?:невозможно|нельзя|не удалось|не получилось)
phrases: ^(?:к сожалению,? |извините,? )?(?:ничего не найдено|нет (?:ответа|данных|информации|сведений)|(?:информаци|
  ответ|сведени|данны)\w* (?:\w+ ){0,4}(?:не найден|нет|отсутств|не обнаружен)\w*)|\bнигде не\b|\bне (?:указан|упомян|
  упомина|описан|привод|раскрыва)\w*$|\bстат\w+ на эту тему\b.{0,20}\bнет\b  replies: (?:\w+ ){0,6}ничего не нашлось|
  нет (?:ответа|данных|информации)|неизвестно|не (?:знаю|указано|найдено|определено)|ничего не найдено
evidence: согласно|по данным|судя по|на основ\w+  exceptions: ^(?:нет|да)[,.;:]|^(?:если|когда|те, у кого|тем, кто|
  кто|пользователи)\b|\bвы не\b  ends: потому|поскольку|так как  results: поэтому|так что|следовательно
contrasts: но|однако|зато|хотя  apologies: извините|простите|к сожалению|приношу|извинения|прошу прощения|боюсь|
  здравствуйте|спасибо|за|вопрос|ответ
"""
_CHINESE: Final = r"""
negations: 不|没|沒|未|无|無|暂无|缺|只能|只讲|均未  speaker: 我(?!们|國|国).{0,12}(?:不|没|沒|无法|無法|只能|不能|还需要)|不知道|不清楚|不太清楚|[无無]法(?:作答|回答|
  确定|確定|判断|判斷|找到|提供|得知|确认|確認|访问)|无从|暂无  sources: 上下文|文档|文檔|文件(?!夹)|段落|资料|資料|原文|文中|文章|手册|手冊|说明书|說明書|知识库|知識庫|内容|內容|信息|
  报道|來源|来源|材料|日志|列表|产品说明|提供的|规定  says: 提到|提及|说明|說明|给出|給出|包含|涉及|列出|找到|看出|看不出|记载|記載|内容|无关|無關|不足|交代|写明|指出|描述|介绍|在|查到|查不到|
  找不到|回答|答案|信息|显示  finds: (?:[无無]法|不能|不足以|没有办法|难以)(?:.{0,6})(?:确定|確定|回答|判断|判斷|得出|作答|得知|推断|知道|给出)  phrases: ^(?:很抱歉|抱歉|
  对不起|非常抱歉|不好意思|很遗憾)?[,，]?(?:目前|暂时)?(?:还)?(?:没有|未|查不到|找不到|暂无)(?:找到|查到|这方面|相关|任何|足够|关于)|(?:未|没有)找到(?:相关|任何)|信息不足|查不到|
  找不到  replies: 不知道|不清楚|[无無]法(?:回答|确定|作答|判断)|未知|没有(?:答案|相关信息)|未提及|不详|无可奉告  evidence: (?:根据|根據|依据|按照|基于).{0,14}?[,，:：]
exceptions: ^(?:不|否|是)[,，。]|^表示|服务器|^(?:如果|若|假如|当)|您(?:不|没|无)|的(?:申请人|用户|人)  ends: 因为|由于  results: 所以|因此
contrasts: 但|可是|然而|不过  apologies: 很|非常|抱歉|对不起|不好意思|遗憾|您好|谢谢|答案|回答|恐怕|的|您|提问
"""
_JAPANESE: Final = r"""
negations: ません|ない|なし|範囲外|控え|欠け|不明|不十分|不能|かね|できかね|ございません|差し控え|のみ|必要  speaker: (?:分|わ)か(?:りません|りかねます|らない)|存じ(?:上げ)?ません|
  (?:お)?答え(?:でき|いたしかね|しかね|することができ)|(?:申し上げ|回答|お答え|断定|判断|案内|確認|特定)(?:する)?(?:ことが|することが|は)?でき(?:ません|ない|かね)|言えません|
  申し上げられません|見つけることが|範囲外|いたしかねます|お伝えでき|控え(?:させて|ます)|持っておりません|判断がつ|(?:見つ|見当た|見付)(?:か|)りませんでした|見つけられません|差し控え|(?:のみ|
  だけ)(?:に|を)?(?:対応|お答え)  sources: 文書|文脈|コンテキスト|資料|抜粋|本文|記事|説明書|取扱|マニュアル|ナレッジ|規則|添付|ドキュメント|ファイル|ページ|情報|テキスト|出典|文章|
  パッセージ|一覧|出典|レシピ|ラベル|章は|記録|日誌|図面|ソース|ガイド  says: 記載|言及|触れ|述べ|書かれ|載って|示され|説明|含ま|含ん|存在|登録|見つか|読み取|検出|明らか|情報|内容|不十分|不能|
  確認|特定|判断|掲載|扱って|得られ|割り出|欠け|あり  finds: (?:特定|判断|回答|断定|確認|お答え|推測|知る)(?:する)?(?:ことは|ことが|は)?(?:でき|不可能|困難)
phrases: (?:該当|関連)する?(?:情報|内容|記事|記載|資料).{0,8}(?:ありません|ございません|ません|なし)|情報が?(?:ありません|見つかりません|なし|ございません|不足)|
  どこにも.{0,12}(?:ません|ない)|記事はまだ  replies: 回答不能|(?:分|わ)かりません|不明(?:です)?|回答(?:不能|できません|なし)|情報(?:なし|がありません)|該当なし|お答えできません|
  判断できません  evidence: (?:によると|によれば|に基づ(?:き|くと|いて))  exceptions: 場合は|なら(?:ば)?、|^いいえ|^はい  results: ため、|ので、|従って
contrasts: しかし|ですが、|ませんが、|ないが、|ものの、|が、  apologies: 申し訳(?:あり|ござい)ませんが?|残念ながら|恐れ入りますが|ごめんなさい|すみません(?:が)?|恐縮ですが|回答|
  ありがとうございます|ご質問
"""
_KOREAN: Final = r"""
negations: 않|없(?!이)|못|모르|모릅|부족|불가|빠져|어렵|미상|만 답|필요  speaker: 모르(?:겠|는)|모릅니다|알 (?:수|길이?) ?없(?!거나)|드리기 (?:어렵|힘들)|답(?:하지|
  을) 못|찾(?:을|지|아볼)? ?(?:수 ?없|못)|답(?:변)?(?:할|드릴|해 드릴)? ?수 ?(?:가 )?없|답(?:변)?을? ?(?:드리|얻|하)(?:기|ㄹ|을)? ?(?:수 ?없|어렵)|
  말씀드릴 수|확실하지 않|(?:판단|확인|제공|특정|안내|단정)(?:해 드릴|할|드릴|하기)? ?(?:수(?:가)? ?없|어렵|되지 않|불가)|질문에만  sources: 문서|문맥|컨텍스트|맥락|자료|발췌|
  본문|기사|설명서|매뉴얼|지식|약관|파일|정보|출처|텍스트|내용|글은|페이지|레시피|목록|카드|일지|구절|단락  says: 나와|언급|명시|다루|등록|적혀|빠져|포함|밝히|기재|담겨|설명|정보|부족|있지|
  검색|관련|보여|내용|수록|결과|빠져|없  finds: (?:판단|확인|특정|답변|파악|알)(?:하기|할|이|은|는)? ?(?:수|불가|어렵)  phrases: (?:자료|정보|맥락|문맥)(?:가|
  이)? (?:더|추가로) 필요|(?:관련|해당|관한|대한) ?(?:정보|내용|자료|문서|도움말|언급|기록).{0,10}(?:없|못|않)|정보가? ?(?:없|부족)|어디에도|아직 (?:준비|등록)
replies: 모르겠(?:습니다|어요)|답변 ?(?:불가|할 수 없음|없음)|확인 ?불가|알 수 없(?:음|습니다)|정보 없음|불명  evidence: (?:따르면|의하면|바탕으로|기반하여|근거하여)
exceptions: ^아니|뜻|가리킵니다|없을 때|(?:으)?시면|(?:않|없)(?:으면|다면|을 경우)|신청자  ends: 때문  results: 따라서|그래서  contrasts: 하지만|그러나|지만|으나
apologies: 죄송(?:하지만|합니다만?)|아쉽게도|유감스럽(?:지만|게도)|안녕하세요|미안해요|답변|감사합니다|음|정말|질문
"""
_ARABIC: Final = r"""
negations: و?ف?لا|و?ف?لم|و?ف?لن|و?ليس|ما عندي|مش|خارج|خال|سكت\w*|تنقص\w*|ليس\w*|لست|غير|يخلو|تعذر|يتعذر|دون|بدون|فقط|
  وحدها|أحتاج|عذرا  speaker: (?:ما عندي|مش عارف)|لا (?:أعرف|أعلم|أدري|أستطيع|أملك|أجد|يمكنني|يسعني|أتوفر|فكرة|
  تتوفر لدي)|ف?و?لم (?:أجد|أعثر|أتمكن|أستطع)|ليس بوسعي|فلن أتمكن|ليس لدينا|فلا أستطيع|لست|ليس(?:ت)? لدي|ليس عندي|
  يتعذر علي|لا توجد لدينا|أحتاج إلى مزيد|يمكنني (?:الإجابة|المساعدة) فقط|لا يمكنني  sources: السياق|\w*وثائق|\w*وثيقة|
  \w*مستند\w*|النص\w*|\w*نصوص|\w*فقرات|\w*مقاطع|\w*مقتطف\w*|\w*مصادر|\w*مقال\w*|\w*دليل|\w*نشرة|قاعدة المعرفة|
  \w*ملفات|\w*لوائح|\w*معلومات|\w*بيانات|\w*سجل|بطاقة|\w*قائمة|\w*مصدر|\w*صفحات|توثيق\w*|العقد|البحث|\w*وصف\w*
says: (?:ت|ي)ذكر\w*|مذكور\w*|ذُكر|(?:ت|ي)تضمن|(?:ت|ي)حتوي|(?:ت|ي)شير|إشارة|(?:ت|ي)تطرق|(?:ت|ي)تناول|(?:ت|ي)وضح|(?:ت|
  ي)غطي|يرد|ورد|يتضح|كافية|(?:ت|ي)وفر|متوفر\w*|معلومات|يدل|جواب|إجابة|العثور|مدرج\w*|موجود\w*|(?:ت|ي)حدد|محدد\w*|توجد|
  يوجد|(?:ت|ي)قدم|نتائج|شيء|(?:ت|ي)سمي|وارد|معلوم|ضمن  finds: خارج نطاق|(?:لا يمكن|تعذر|يتعذر|يستحيل|لم يتسن|
  من غير الممكن)\b.{0,20}(?:تحديد|الإجابة|معرفة|العثور|الجزم|استنتاج|التأكد)  phrases: (?:لا (?:توجد|يوجد|تتوفر|
  يتوفر)|لم (?:يتم )?(?:العثور|أعثر|تذكر|يذكر|يرد)).{0,24}(?:معلومات|إجابة|نتائج|بيانات|ذكر|مقالة|تفاصيل)|
  غير (?:مذكور|متوفر|موجود)\w* في|لا فكرة  replies: لا (?:أعرف|أعلم|أدري)|غير (?:معروف|مذكور|متوفر)|لا (?:تتوفر|
  توجد) (?:إجابة|معلومات)|مجهول  evidence: وفق\w*|بحسب|حسب|بناء على|بناءً على  exceptions: ^(?:لا|نعم)،|^(?:إذا|إن|
  إن كنت|عندما|كل من|من ليس|قال)\b  ends: لأن  results: لذا|لذلك|ولهذا|ولذا  contrasts: لكن\w*|ولكن\w*|غير أن|إلا أن|
  بل|أما  apologies: عذرا|عذرًا|للأسف|نأسف|آسف|أعتذر|منك|معذرة|مرحبا|شكرا|على|سؤالك|الإجابة|أخشى أن|أخشى
"""
_ITALIAN: Final = r"""
speaker: non (?:lo so|saprei|mi è noto|(?:ho|abbiamo) (?:\w+ ){0,2}(?:trovat|informazion|dat|idea)\w*|posso|riesco|
  sono in grado|è possibile|si può|trovo)|(?:document|test|contest|bran|font|manual|
  estratt)\w+ non (?:\w+ )?(?:contien|menzion|indica|specific|riport|fornisc|spieg|dic|parl|cit)\w*|non (?:si evince|
  risulta|compare|(?:è|viene) (?:\w+ )?(?:menzionat|specificat|indicat|riportat)\w)|nessuna (?:informazion|
  rispost)\w+|impossibile  replies: sconosciut[oa]|(?:dato|risposta) non disponibile  exceptions: ^(?:no[,.;:]|(?:se|
  quando|chi|gli utenti)\b)  contrasts: ma|però|tuttavia  apologies: mi dispiace|purtroppo|spiacent[ei]|scusa\w*
common: il la di che non è un una del della nel per in si dei le gli sono con
"""
_DUTCH: Final = r"""
speaker: (?:weet|kan|kon|vind|heb|vond|hebben) (?:ik|we) (?:\w+ ){0,4}(?:niet|geen|niets)|ik (?:weet|kan|kon|heb|
  vind) (?:\w+ ){0,5}(?:niet|geen|niets)|(?:document|tekst|bron|fragment|context|artikel|handleiding)\w* (?:vermeld|
  noem|bevat|zeg|geef|geven|beschrijf)\w* (?:\w+ ){0,3}(?:niet|geen|niets)|(?:staat|komt|
  wordt) (?:\w+ ){0,3}niet (?:voor |vermeld |genoemd )?in|geen (?:informatie|antwoord|idee)  replies: onbekend|
  geen idee  exceptions: ^(?:nee|als|wanneer|wie)\b|\b(?:u|je|jij)\b  contrasts: maar|echter  apologies: sorry|helaas|
  het spijt me  common: de het een niet van in is dat ik en op voor geen te er wordt met
"""
_SWEDISH: Final = r"""
speaker: (?:vet|kan|har|hittar|hittade) (?:jag|vi) (?:tyvärr )?(?:inte|ingen|inga|inget)|(?:jag|vi) (?:vet|kan|har|
  hittar|hittade) (?:tyvärr )?(?:inte|ingen|inga|inget)|(?:dokument|text|artikel|utdrag|källor|kontext|
  handbok)\w* (?:nämner|anger|säger|förklarar|beskriver|innehåller|tar) (?:inte|ing\w*)|framgår (?:det )?inte|
  inte (?:nämn|angiv)\w+|ing(?:en|a) (?:information|uppgift)\w*  replies: okänt|uppgift saknas  exceptions: ^(?:nej|
  om du|när|att)\b  contrasts: men|dock  apologies: tyvärr|förlåt|ursäkta|beklagar
common: att det i inte och är som på av en ett för jag med den till finns har om
"""
_POLISH: Final = r"""
speaker: nie (?:wiem|mogę|potrafię|znalaz\w+|znaleziono|podano|wspomniano|udało mi|(?:mam|ma) (?:informacji|danych|
  dostępu|wzmianki|odpowiedzi)|można (?:ustalić|określić|odpowiedzieć|stwierdzić)|(?:zawiera|podaj|wspomina|określa|
  opisuj|wyjaśnia)\w*|wynika)|brak (?:informacji|danych|odpowiedzi|wzmianki)  replies: nie wiadomo
exceptions: ^(?:nie[,.;:]|(?:jeśli|jeżeli|gdy|kto)\b)  contrasts: ale|jednak|lecz  apologies: przepraszam|niestety|
  przykro mi  common: w na nie do się jest z że to o dla po od czy jak przez są oraz a i
"""
_CZECH: Final = r"""
speaker: nevím|netuším|nevíme|nelze|nenašel jsem|nenašla jsem|nemohu|nemám (?:informac|údaj)\w*|
  není (?:\w+ )?(?:uveden|zmíněn|zřejm|popsán|známo)\w*|(?:text|dokument|zdroj|článek|kontext|
  úryv)\w* (?:to )?ne(?:uvád|obsah|zmiň|vysvětl|popis)\w+|žádné informace  exceptions: ^(?:ne[,.;:]|pokud|když|jestli)
contrasts: ale|však|avšak  apologies: omlouvám se|bohužel|je mi líto
common: v na není je se že o do z pro jsou to jak po k nelze jen ve základě
"""
_TURKISH: Final = r"""
speaker: \w*bilmiyorum|bilemiyorum|\w*bulamad\w+|yanıtlayam\w+|cevaplayam\w+|belirtilm[ei](?:miş|yor|di)\w*|
  bahsedilmiyor|(?:bilgi|sonuç|yanıt|cevap|kayıt)(?: \w+)? (?:yok|bulun(?:am|m)\w+|mevcut değil)|(?:içer|kapsa|açıkla|
  belirt)m[iıuü]yor|yer almıyor|mümkün değil|fikrim yok  exceptions: ^(?:hayır|eğer)\b|\b(?:yoksa|değilse)\b
contrasts: ama|ancak|fakat  apologies: üzgünüm|maalesef|özür dilerim
common: bir bu ve için değil yok ne de da hakkında ile olarak göre veya ise
"""
_HINDI: Final = r"""
speaker: (?:मुझे|मैं|हमारे पास).{0,60}नहीं|नहीं (?:पता|जानत|बताया|दिया गया|मिला|मिली)|(?:जानकारी|उत्तर|
  उल्लेख).{0,20}(?:नहीं|अनुपलब्ध)|(?:दस्तावेज़|पाठ|संदर्भ|मैनुअल|स्रोत|लेख(?!क)).{0,60}(?:मौन है|नहीं (?:है|बता|कह))
exceptions: ^(?:नहीं,|अगर|यदि|जब|जिनके)|आपको |गवाह  contrasts: लेकिन|मगर|परंतु|किंतु  apologies: क्षमा|करें|खेद|है|
  माफ़|कीजिए|दुर्भाग्यवश|अफ़सोस
"""
_LATIN: Final = (
    *(_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _PORTUGUESE, _ITALIAN),
    *(_DUTCH, _SWEDISH, _POLISH, _CZECH, _TURKISH),
)
_SCRIPTS: Final = (
    (re.compile("[\u3040-\u30ff]"), _JAPANESE),
    (re.compile("[\uac00-\ud7af]"), _KOREAN),
    (re.compile("[\u3400-\u9fff]"), _CHINESE),  # after Japanese, which uses these characters as well
    (re.compile("[\u0600-\u06ff]"), _ARABIC),
    (re.compile("[\u0900-\u097f]"), _HINDI),
    (re.compile("[\u0400-\u04ff]"), _RUSSIAN),
)
_UNBOUNDED: Final = (_CHINESE, _JAPANESE, _KOREAN, _HINDI)
"""Languages without spaces between words, or with marks at the end of words that `re` does not take for letters."""
_ANYWHERE: Final = frozenset({"phrases", "exceptions"})
"""Patterns that contain the boundaries of their words themselves."""
_FIELD: Final = re.compile(r"(?:\A|\n| {2})([a-z]+): ")

_QUOTED: Final = re.compile(
    '"[^"]*"|\u201d[^\u201d]*\u201d|\u201c[^\u201d]*\u201d|\u201e[^\u201c\u201d]*[\u201c\u201d]|\u2018[^\']*\''
    "|\u00ab[^\u00bb]*\u00bb|\u300c[^\u300d]*\u300d|(?<!\\w)'[^']*'(?!\\w)"
)
_MARKUP: Final = re.compile(r"[*`#>]|\[\d+\]|\b_+|_+\b")
_LABEL: Final = re.compile(r"^[\w ]{1,24}[:\uff1a]\s*|^[\w/]{1,4} ?[-\u2013\u2014]\s+")
"""A word before the answer ("Answer: ", "N/A - ")."""
_MARKS: Final = " \"'.,!?;:\u3002\uff01\uff1f\u0964\n"


def own_refusals(phrases: Sequence[str]) -> AbstractContextManager[object]:
    """Add phrases of the user to the detection within a block. Without any, those around the block apply."""
    return assigned(OWN_REFUSALS, tuple(phrases) or OWN_REFUSALS.get())


def is_own_refusal(answer: str) -> bool:
    """Return whether an answer that declines does so only by a phrase of the user."""
    with assigned(OWN_REFUSALS, ()):
        return not answer_abstains(answer)


@cache
def _own_pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    words = [normalize_case(phrase).replace("\u2019", "'").strip(_MARKS).split() for phrase in phrases]
    alternatives = "|".join(r"\s+".join(map(re.escape, phrase)) for phrase in words)
    return re.compile(rf"(?:{alternatives})(?!\w)")


def answer_abstains(answer: str, *, whole: bool = False) -> bool:
    """Return whether an answer declines to answer.

    The rule looks at short answers only. It reads English, German, French, Spanish, Portuguese, Russian, Arabic,
    Chinese, Japanese and Korean, and typical phrases in Italian, Dutch, Swedish, Polish, Czech, Turkish and Hindi. A
    refusal before a contrast does not count, because an answer may follow ("I am not sure, but it is Oslo"), nor does a
    quoted one. With `whole`, each sentence must decline, and not state something else before it does ("It is Oslo, but
    I am not sure"). Otherwise the first sentence that says something decides, as in a diagnosis. A
    sentence that begins with one of `OWN_REFUSALS` declines, and an answer of any length that begins with one.

    Examples:
        >>> answer_abstains("I could not find this in the handbook."), answer_abstains("She carries 24 cars.")
        (True, False)
        >>> answer_abstains("I don't know the year. It was spring.", whole=True)
        False
        >>> answer_abstains("It was spring, but I am not sure.", whole=True)
        False
    """
    text = normalize_case(answer).replace("\u2019", "'").strip()
    own = _own_pattern(phrases) if (phrases := OWN_REFUSALS.get()) else None
    if own and not whole and own.match(text.strip(_MARKS)):
        return True
    if not text or len(text) > _LONGEST:
        return not text
    bare = text.rstrip(".")
    text = bare.strip("\"'\u201c\u201d\u201e\u00ab\u00bb") if _QUOTED.fullmatch(bare) else _QUOTED.sub(" ", text)
    text = _MARKUP.sub("", text)
    sentences = split_sentences(text) or [text]
    scripts = [] if text.isascii() else [words for script, words in _SCRIPTS if script.search(text)]
    if scripts:
        return _declines(sentences, _language(scripts[0]), own, whole=whole)
    # By frequent words: in a few words the language may be one of several.
    tokens = set(re.findall(r"[\w']+", text))
    votes = [len(tokens & _language(words).common) for words in _LATIN]
    most = max(votes)
    likely = [words for words, vote in zip(_LATIN, votes, strict=True) if vote == most]
    return any(_declines(sentences, _language(words), own, whole=whole) for words in likely)


_compiled: Final = cache(re.compile)
"""Each pattern is compiled at its first use, because all of them take longer than most imports."""


class _Language:
    """The patterns of one language."""

    def __init__(self, words: str) -> None:
        # Letters with marks can be written in two ways, and text is normalized.
        _, *parts = _FIELD.split(normalize("NFKC", words).strip("\n").replace("\n  ", ""))
        alternatives = dict(zip(parts[::2], parts[1::2], strict=True))
        self.common = frozenset(alternatives.get("common", "").split())
        self._patterns = {
            name: rf"\A(?:{pattern})\Z"
            if name == "replies"
            else pattern
            if name in _ANYWHERE or words in _UNBOUNDED
            else rf"\b(?:{pattern})\b"
            for name, pattern in alternatives.items()
        }
        # Of some languages only whole phrases are known, which contain their negation.
        self._patterns.setdefault("negations", self._patterns["speaker"])
        self.apologies = rf"(?:(?:{alternatives['apologies']})(?!\w)[\s,.!\u3001\u3002\uff0c\uff01]*)+"

    def has(self, name: str, text: str) -> bool:
        pattern = self._patterns.get(name)
        return pattern is not None and _compiled(pattern).search(text) is not None

    def split(self, name: str, text: str) -> list[str]:
        pattern = self._patterns.get(name)
        return [text] if pattern is None else _compiled(pattern).split(text)


_language: Final = cache(_Language)


def _declines(sentences: list[str], language: _Language, own: re.Pattern[str] | None, *, whole: bool) -> bool:
    declines = False
    for raw in sentences:
        stripped = raw.strip(_MARKS)
        # A sentence of apologies ("I'm sorry.") comes before the one that decides.
        if not language.has("replies", stripped) and _compiled(language.apologies).fullmatch(stripped):
            continue
        sentence = _LABEL.sub("", stripped)
        declines = language.has("replies", sentence) or (own is not None and own.match(stripped) is not None)
        if not declines and language.has("negations", sentence):
            has_source = language.has("sources", sentence)
            verdicts = [
                _clause_declines(clause, language, has_source=has_source)
                for clause in (part.strip(" ,") for part in language.split("contrasts", sentence))
                if clause and not _compiled(language.apologies).fullmatch(clause)
            ]
            declines = bool(verdicts) and (all(verdicts) if whole else verdicts[-1])
        if not (whole and declines):
            break
    return declines


def _clause_declines(clause: str, language: _Language, *, has_source: bool) -> bool:
    clause = re.split("[;\uff1b]", clause, maxsplit=1)[0].strip()
    if language.has("replies", clause) or language.has("phrases", clause):
        return True
    parts = (part.strip(" ,") for part in language.split("results", language.split("ends", clause)[0]))
    return any(_part_declines(part, language, has_source=has_source) for part in parts)


def _part_declines(part: str, language: _Language, *, has_source: bool) -> bool:
    if not language.has("negations", part) or language.has("exceptions", part):
        return False
    if language.has("speaker", part) or language.has("finds", part):
        return True
    return has_source and language.has("says", part) and not language.has("evidence", part)
